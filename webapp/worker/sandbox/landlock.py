"""Exec shim: closes a folder to the process that it becomes, with Linux's Landlock, but for some paths in it.

Run as a script: `python landlock.py RULES command…`, with `Rules` as JSON. Standard library only, so that it starts
within milliseconds. Landlock needs no privileges, cannot be undone by the process, and holds for its children. Such a
process cannot read the memory or the variables of processes outside, as others of its account can, nor signal them
(Linux 6.12). Root keeps only the capabilities that concern files, since others pass by these limits.

Landlock knows only what is allowed. Everything outside the folder stays as it is: allowed are therefore all entries of
its parents but itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on all architectures
RULE_PATH_BENEATH = 1
VERSION_FLAG = 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
LAST_CAPABILITY = 63
FILE_CAPABILITIES = frozenset(range(5))  # chown, dac_override, dac_read_search, fowner, fsetid
OLDEST = 2  # the first version that lets a sandboxed process move files between folders

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE = 1 << 13, 1 << 14
ALL_FIRST = (1 << 13) - 1  # of version 1
SCOPE_SIGNAL = 1 << 1


@dataclass(frozen=True)
class Rules:
    """What a process may reach.

    Attributes:
        closed: folder that is closed to it.
        writable, readable: files and folders below it that are open; those that do not exist are left out.
        listed: parents of the closed folder whose entries the process may list, and thereby those of folders in them.
    """

    closed: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    def dump(self) -> str:
        return json.dumps(asdict(self))


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """Version of Landlock's interface on this system; 0 without it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(CREATE_RULESET, None, 0, VERSION_FLAG)))


def is_available() -> bool:
    """Whether this system can restrict processes as this module needs it."""
    return version() >= OLDEST


def restrict(rules: Rules) -> None:
    """Restrict this process and its future children. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    known = version()
    everything = ALL_FIRST | REFER | (TRUNCATE if known >= 3 else 0)
    attributes = _RulesetAttributes(everything, 0, SCOPE_SIGNAL)
    size = ctypes.sizeof(attributes) if known >= 6 else 8
    ruleset = _checked(libc.syscall(CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path, access in _grants(rules, everything):
            _allow(libc, ruleset, path, access)
        _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _grants(rules: Rules, everything: int) -> Iterator[tuple[str, int]]:
    """(path, access) of all rules."""
    reading = EXECUTE | READ_FILE | READ_DIR
    yield from ((path, everything) for path in _surroundings(Path(rules.closed)))
    yield from ((path, everything) for path in rules.writable)
    yield from ((path, reading) for path in rules.readable)
    yield from ((path, READ_DIR) for path in rules.listed)


def _surroundings(closed: Path) -> Iterator[str]:
    """All entries of the folder's parents that do not contain it."""
    for parent in closed.parents:
        try:
            names = os.listdir(parent)
        except OSError:  # not readable for this account: what is in it stays closed
            continue
        yield from (str(parent / name) for name in names if parent / name not in (closed, *closed.parents))


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    """Allow access to a file, or a folder with everything in it; symbolic links are covered by their targets."""
    try:
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # missing, or not open to this account anyway
        return
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISLNK(mode):
            return
        if not stat.S_ISDIR(mode):
            access &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
        rule = _PathBeneath(access, handle)
        _checked(libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(handle)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def drop_capabilities() -> None:
    """Take all capabilities but those for files from what this process executes. Without effect for other accounts."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in set(range(LAST_CAPABILITY + 1)) - FILE_CAPABILITIES:
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # an error for those that the kernel does not have


def main(rules: Rules, command: list[str]) -> None:
    """Become the command, restricted."""
    drop_capabilities()
    restrict(rules)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(Rules(**json.loads(sys.argv[1])), sys.argv[2:])
