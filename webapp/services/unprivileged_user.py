"""Unprivileged user for child processes of root, and parent-death signals.

PostgreSQL refuses to run as root. Where Echoscope runs as root (containers, CI), PostgreSQL runs as an existing system
account; no account is created.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CANDIDATES = ("postgres", "nobody")

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 4
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE = 1


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapabilityData(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


@dataclass(frozen=True)
class Account:
    """An unprivileged account. With `reach`, keep CAP_DAC_OVERRIDE for paths below folders closed to the account."""

    uid: int
    gid: int
    reach: bool = False


def unprivileged_user(*paths: Path) -> Account | None:
    """Return the account for programs that refuse root; None if this process is not root.

    It must have access to `paths`.
    """
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        restricted = any(not _passable(folder) for path in paths for folder in path.resolve().parents)
        return Account(entry.pw_uid, entry.pw_gid, reach=restricted)
    raise RuntimeError(
        f"PostgreSQL does not run as root, and this machine has no account named {' or '.join(CANDIDATES)}. "
        "Run Echoscope as an ordinary user, or set DATABASE_URL to a PostgreSQL server instead."
    )


def _passable(folder: Path) -> bool:
    return not folder.exists() or bool(folder.stat().st_mode & 0o001)


def child_setup(account: Account | None, death_signal: signal.Signals) -> Callable[[], None]:
    """Return a preexec_fn that switches to `account` and requests `death_signal` for the parent's death.

    The signal needs Linux; elsewhere only the watchdog stops the children. The library is loaded in the parent, because
    little may run after the fork.
    """
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def setup() -> None:
        if account is not None:
            _switch_to(account, libc)
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)  # after the change of account, which clears it
            if os.getppid() != parent:  # the parent has already died
                os.kill(os.getpid(), signal.SIGKILL)

    return setup


def _switch_to(account: Account, libc: ctypes.CDLL | None) -> None:
    reach = account.reach and libc is not None
    if reach and libc is not None:
        libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        # initdb checks its programs with access(2), which otherwise ignores capabilities
        libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    os.setgroups([])
    os.setgid(account.gid)
    os.setuid(account.uid)
    if reach and libc is not None:
        mask = 1 << CAP_DAC_OVERRIDE
        data = (_CapabilityData * 2)(_CapabilityData(mask, mask, mask), _CapabilityData(0, 0, 0))
        libc.capset(ctypes.byref(_CapabilityHeader(CAPABILITY_VERSION_3, 0)), data)
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)
