"""Everything that a trainer may reach: its run's files, the program and its libraries, caches, and some TCP ports."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from django.conf import settings

from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.worker.sandbox import host_files, landlock, named_paths
from webapp.worker.sandbox.named_paths import MODELS_VARIABLE

VARIABLE = "ECHOSCOPE_TRAINER_SANDBOX"
MODES = ("auto", "required", "off")
TEMPORARY = "tmp"
"""Folder for temporary files, within the run's folder."""
HOME = f"{TEMPORARY}/home"
"""Home folder of a trainer: compiled kernels and other caches of its libraries end with it, and reach no other run."""
_SHARED_CACHES = {"HF_HOME": "huggingface", "ECHOSCOPE_CACHE": "echoscope"}
"""Variables of the caches that runs share, and their names in the account's cache folder."""


def mode(environ: Mapping[str, str] = os.environ) -> str:
    """Return the operator's choice. Raises ValueError for an unknown value."""
    chosen = environ.get(VARIABLE, "").strip() or MODES[0]
    if chosen not in MODES:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(MODES)}, not {chosen!r}.")
    return chosen


def is_active() -> bool:
    """Return True if this worker's trainers are sandboxed. Raises ValueError if the operator's choice cannot be met."""
    chosen = mode()
    available = landlock.is_available()
    if chosen == "required" and not available:
        raise ValueError(f"{VARIABLE} is 'required', but this system has no Landlock: that takes Linux 5.19 or newer")
    if chosen == "required" and os.geteuid() == 0:
        raise ValueError(f"{VARIABLE} is 'required', but this worker runs as root: start it under another account")
    return available and chosen != "off"


def weaknesses() -> list[str]:
    """Return sentences on weaker limits of trainers than the operator may expect: what they mean, and what to do."""
    if mode() == "off":
        return []
    sentences = []
    if os.geteuid() == 0:
        sentences.append(
            "Trainers run as root: code that leaves their sandbox owns the machine. Start the worker under another "
            "account."
        )
    if not landlock.is_available():
        sentences.append(
            "Trainers run without a sandbox, as this system has no Landlock: code of a run reaches all files of the "
            "worker's account, such as the files of other runs. Start the worker on Linux 5.19 or newer with Landlock."
        )
    elif not landlock.limits_ports():
        sentences.append(
            "Trainers reach the whole network, as this system's Landlock limits no ports: code of a run can connect to "
            "any server in reach. Start the worker on Linux 6.7 or newer."
        )
    return sentences


def command_prefix(
    data: Path,
    folder: Path,
    environment: Mapping[str, str],
    readable: Iterable[Path] = (),
    ports: Iterable[int] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Return the beginning of a trainer's command, which restricts it, and the variables that it then needs.

    Both are empty if the operator switched the sandbox off, or if it is not required and the system has no Landlock.
    The trainer then reaches all files of its account.

    Args:
        data: the site's data folder.
        folder: folder of the run, below `data`.
        environment: environment variables of the trainer; paths in them are readable, and their caches are writable.
        readable: further files and folders that the operator opened to runs.
        ports: TCP ports that it may connect to; None if its processes connect to each other at ports that they choose.
    Raises:
        ValueError: the operator's choice is unknown or cannot be met on this system.
    """
    if not is_active():
        return [], {}
    run_folder = folder.resolve()
    UntrustedFolder(run_folder).make_folder(HOME)
    variables = _variables(run_folder, environment)
    shared = [*caches(data, {**environment, **variables}), *named_paths.ray_folder(environment)]
    writable = [run_folder, *host_files.devices(), *shared]
    names_threads = host_files.has_nvidia_gpu()  # CUDA does so in /proc, and does not start where it cannot
    is_single = ports is not None
    if names_threads and (os.geteuid() != 0 or not is_single):  # root may change the kernel there
        writable.append(Path("/proc"))
    rules = landlock.Rules(
        writable=tuple(map(str, writable)),
        readable=tuple(map(str, _readable(data.resolve(), environment, readable))),
        listed=(str(host_files.ROOT),),  # `python -m trainer` looks for modules
        own_process=names_threads,
        ports=None if ports is None else tuple(sorted(ports)),
    )
    return [sys.executable, "-I", "-S", landlock.__file__, rules.dump()], variables


def require_protected(environment: Mapping[str, str], models: Path) -> None:
    """Raise ValueError if trainers could write to the models folder because a cache contains it."""
    for cache in caches(Path(settings.ECHOSCOPE_DATA_DIR), {**environment, **_cache_variables(environment)}):
        if models.resolve().is_relative_to(cache):
            raise ValueError(
                f"{MODELS_VARIABLE}={models} is in {cache}, where runs may write: choose a folder outside of "
                "ECHOSCOPE_CACHE and HF_HOME."
            )


def caches(data: Path, environment: Mapping[str, str]) -> list[Path]:
    """Return folders that runs share and write to, except folders of runs and folders that contain more than a cache.

    A path in a run's folder may by now lead to another run, and its own run can reach it anyway.
    """
    runs = data.resolve() / "runs"
    closed = [runs, host_files.ROOT, Path(sys.prefix).resolve(), Path.home().resolve()]
    folders = {
        path for named in named_paths.writable(environment) if (path := _resolved(named, strict=False)) is not None
    }
    apart = (path for path in folders if not path.is_relative_to(runs))
    return sorted(path for path in apart if not any(closed_path.is_relative_to(path) for closed_path in closed))


def _variables(run_folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that direct a trainer to its open folders. Creates the caches, which the trainer cannot do."""
    shared = _cache_variables(environment)
    for path in named_paths.writable({**environment, **shared}):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue  # below a read-only folder: the library reports what it cannot write
    home = str(run_folder / HOME)
    private = {"HOME": home, "TMPDIR": str(run_folder / TEMPORARY)}
    private |= {name: home for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME") if name in environment}
    base = {"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {}
    return shared | private | base


def _cache_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the shared caches, at their usual places unless the operator has chosen others."""
    around = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return {name: environment.get(name) or str(around / folder) for name, folder in _SHARED_CACHES.items()}


def _readable(data: Path, environment: Mapping[str, str], listed: Iterable[Path]) -> list[Path]:
    """Return everything that a trainer may read, as real paths: no data of the site except what the operator opened."""
    private = (data, host_files.ROOT, Path.home().resolve())
    opened: set[Path] = set()
    for path in (*host_files.program(), *host_files.system()):
        if (real := _resolved(path)) is not None:
            opened.update(_apart_from(data, real))
    for path in (*named_paths.readable(environment), *listed):
        real = _resolved(path)
        if real is not None and not any(private_path.is_relative_to(real) for private_path in private):
            opened.add(real)
    return sorted(path for path in opened if not path.is_relative_to(data / "runs"))


def _apart_from(closed: Path, path: Path) -> Iterator[Path]:
    """Yield the path, or if it contains the closed folder, everything in it except that folder."""
    if not closed.is_relative_to(path):
        yield path
        return
    for entry in path.iterdir() if path != closed else ():
        if not entry.is_symlink():
            yield from _apart_from(closed, entry)


def _resolved(path: Path, *, strict: bool = True) -> Path | None:
    """Return the path without symbolic links; None if that is impossible, or with `strict` if it does not exist."""
    try:
        return path.resolve(strict=strict)
    except (OSError, RuntimeError, ValueError):  # missing, a circle of links, or no path
        return None
