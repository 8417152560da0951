"""Environment variables of a sandbox host: everything that a Python process needs, and no secrets.

Code of other packages runs in it. Tokens of trackers, of model hubs and of hosted models remain with the trainer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

BASIC_NAMES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "TMP",
        "TEMP",
        "VIRTUAL_ENV",
        "XDG_CACHE_HOME",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "DYLD_LIBRARY_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "ECHOSCOPE_TRAINER",  # the tag by which the supervisor finds all processes of a run
        "ECHOSCOPE_BOXOBAN_LEVELS",
        "ECHOSCOPE_METAMATH_DATA",
        "ECHOSCOPE_WEBSHOP_DATA",
    }
)
BASIC_PREFIXES = ("LC_", "PYTHON", "MALLOC_", "OMP_", "MKL_", "OPENBLAS_", "ATEN_")


def select(environ: Mapping[str, str], names: Iterable[str], prefixes: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables with one of the names or prefixes, if they are set."""
    wanted, beginnings = frozenset(names), tuple(prefixes)
    return {name: value for name, value in environ.items() if name in wanted or name.startswith(beginnings)}


def host_environment(environ: Mapping[str, str], declared: Iterable[str] = ()) -> dict[str, str]:
    """Return variables of a sandbox host: basic ones, and those its environment declares (`TextEnv.variables`)."""
    return select(environ, BASIC_NAMES.union(declared), BASIC_PREFIXES)
