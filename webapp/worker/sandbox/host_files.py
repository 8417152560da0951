"""Files and devices of the machine that every trainer needs: the program, Python with its packages, and the system."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[3]
"""Folder of the program. It may contain the site's data and a file of variables, so only its packages are open."""
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt/rocm", "/nix/store", "/proc", "/sys")
_LINKER = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "OpenCL", "vulkan", "libibverbs.d")
_NETWORK = ("hosts", "host.conf", "resolv.conf", "nsswitch.conf", "gai.conf", "services", "protocols", "nccl.conf")
_CERTIFICATES = ("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls", "pki/ca-trust", "ca-certificates")
_FACTS = ("localtime", "timezone", "*release", "*version", "passwd", "group", "mime.types", "fonts", "crypto-policies")
_CONFIGURATION = (*_LINKER, *_NETWORK, *_CERTIFICATES, *_FACTS)
"""Files in /etc that libraries read; the folder also contains keys and the variables of services."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "dxg", "dri", "kfd", "nvidia*", "accel*", "infiniband")
"""Devices below /dev that trainers write to: harmless ones, shared memory, GPUs and their networks."""


def program() -> Iterator[Path]:
    """Yield the program's Python packages, the Python that runs it, and everything that this Python imports from."""
    yield from (entry.parent for entry in sorted(ROOT.glob("*/__init__.py")))
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), Path(sys.base_exec_prefix))
    yield from (path for path in map(Path, filter(None, sys.path)) if path.is_absolute() and path.resolve() != ROOT)
    yield from _editable_packages()


def _editable_packages() -> Iterator[Path]:
    """Yield folders of packages installed with `pip install -e`, such as an environment in development (PEP 610)."""
    for distribution in metadata.distributions():
        try:
            origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        except ValueError:
            continue
        url = urlsplit(str(origin.get("url", "")))
        if url.scheme == "file" and origin.get("dir_info", {}).get("editable") and Path(unquote(url.path)) != ROOT:
            yield Path(unquote(url.path))


def system() -> Iterator[Path]:
    """Yield the system's libraries and programs, and the configuration that they read."""
    yield from map(Path, _SYSTEM)
    for pattern in _CONFIGURATION:
        yield from Path("/etc").glob(pattern)
    for listing in Path("/etc/ld.so.conf.d").glob("*.conf"):
        yield from map(
            Path, (line for line in listing.read_text(errors="replace").splitlines() if line.startswith("/"))
        )


def devices() -> Iterator[Path]:
    """Yield the devices that trainers read and write."""
    for pattern in _DEVICES:
        yield from Path("/dev").glob(pattern)


def has_nvidia_gpu() -> bool:
    """Return True if this machine has devices of NVIDIA's driver."""
    return Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()
