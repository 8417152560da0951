"""As whom a child process runs, and that it does not outlive its parent. Starting and watching it is done elsewhere.

PostgreSQL refuses to run as root. Where everything runs as root (a container, a CI machine), it gets an ordinary
account that exists everywhere; no account is created.
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
    """An ordinary account that stands in for root. `reach` keeps the right to pass through folders closed to it."""

    uid: int
    gid: int
    reach: bool = False


def unprivileged_user(*paths: Path) -> Account | None:
    """The account that runs what root may not; None where we are not root. `paths` are what it must get at."""
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        closed = any(not _passable(folder) for path in paths for folder in path.resolve().parents)
        return Account(entry.pw_uid, entry.pw_gid, reach=closed)
    raise RuntimeError(
        f"PostgreSQL does not run as root, and this machine has no account named {' or '.join(CANDIDATES)}. "
        "Run Echoscope as an ordinary user, or set DATABASE_URL to a PostgreSQL server of your own."
    )


def _passable(folder: Path) -> bool:
    return not folder.exists() or bool(folder.stat().st_mode & 0o001)


def child_setup(account: Account | None, farewell: signal.Signals) -> Callable[[], None]:
    """What a child does between fork and exec: become `account`, and ask for `farewell` when the parent dies.

    Only Linux can promise the second; elsewhere the watchdog alone does it. The libraries are loaded here, in the
    parent: after the fork as little as possible may run.
    """
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def setup() -> None:
        if account is not None:
            _become(account, libc)
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, int(farewell), 0, 0, 0)  # after the change of account, which clears it
            if os.getppid() != parent:  # the parent died in between
                os.kill(os.getpid(), signal.SIGKILL)

    return setup


def _become(account: Account, libc: ctypes.CDLL | None) -> None:
    reach = account.reach and libc is not None
    if reach and libc is not None:
        libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        # initdb asks access(2) about its programs, which otherwise answers as if there were no capabilities
        libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    os.setgroups([])
    os.setgid(account.gid)
    os.setuid(account.uid)
    if reach and libc is not None:
        wanted = 1 << CAP_DAC_OVERRIDE
        data = (_CapabilityData * 2)(_CapabilityData(wanted, wanted, wanted), _CapabilityData(0, 0, 0))
        libc.capset(ctypes.byref(_CapabilityHeader(CAPABILITY_VERSION_3, 0)), data)
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)
