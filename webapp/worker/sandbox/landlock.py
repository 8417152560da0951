"""Exec shim that uses Linux's Landlock to limit the files and TCP ports that its process can reach.

Run as a script: `python landlock.py RULES command…`, with `Rules` as JSON. Standard library only, so that it starts
within milliseconds. Landlock needs no privileges, cannot be undone by the process, and also applies to its children.
Such a process cannot read the memory or the variables of processes outside, as other processes of its account can, nor
connect to their abstract sockets or signal them (Linux 6.12). Root keeps only the capabilities for files, since others
bypass these limits.

Landlock only knows permissions: a process reaches the paths and ports of its rules, and no others. It does not cover
prlimit, by which a process could end any other one of its account: a limit of one second of processor time is a signal.
A filter of system calls (seccomp) refuses that for processes other than the caller.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on all architectures
RULE_PATH_BENEATH, RULE_NET_PORT = 1, 2
VERSION_FLAG = 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 24, 38, 22
LAST_CAPABILITY = 63
FILE_CAPABILITIES = frozenset(range(5))  # chown, dac_override, dac_read_search, fowner, fsetid
OLDEST = 2  # the first version that lets a sandboxed process move files between folders

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE = 1 << 13, 1 << 14
ALL_FIRST = (1 << 13) - 1  # of version 1
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNAL = 1 << 0, 1 << 1
NETWORK, SCOPES = 4, 6  # versions that limit TCP ports, and that close the way to other processes

SECCOMP_FILTER = 2
LOAD, JUMP_EQUAL, JUMP_ABOVE, RETURN = 0x20, 0x15, 0x35, 0x06  # of Berkeley packet filters
ALLOWED, REFUSED = 0x7FFF0000, 0x00050001  # the latter with EPERM
CALL, ARCHITECTURE, PID = 0, 4, 16  # offsets in the data of a filter; of the first argument, the half with a pid
X32 = 0x40000000
ARCHITECTURES = {"x86_64": (0xC000003E, 302), "aarch64": (0xC00000B7, 261)}
"""Machine → its number for filters, and the number of prlimit64."""


@dataclass(frozen=True)
class Rules:
    """Paths and ports that a process may reach. Missing paths and symbolic links are left out.

    Attributes:
        writable, readable: files, and folders with everything in them.
        listed: folders whose names, including names in subfolders, the process may list without opening the files.
        own_process: True if the process may write to its own entry in /proc, but not to its children's.
        ports: TCP ports that it may connect to, in which case it can listen on none; None: the network is open.
    """

    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    own_process: bool = False
    ports: tuple[int, ...] | None = None

    def dump(self) -> str:
        return json.dumps(asdict(self))


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("true", ctypes.c_uint8), ("false", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


class _NetPort(ctypes.Structure):
    _fields_ = [("access", ctypes.c_uint64), ("port", ctypes.c_uint64)]


def version() -> int:
    """Return the version of Landlock's interface on this system; 0 without it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(CREATE_RULESET, None, 0, VERSION_FLAG)))


def is_available() -> bool:
    """Return True if this system can restrict processes as this module needs it."""
    return version() >= OLDEST


def limits_ports() -> bool:
    """Return True if this system can restrict a process to some TCP ports."""
    return version() >= NETWORK


def restrict(rules: Rules) -> None:
    """Restrict this process and its future children. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    known = version()
    everything = ALL_FIRST | REFER | (TRUNCATE if known >= 3 else 0)
    ports = rules.ports if known >= NETWORK else None
    network = BIND_TCP | CONNECT_TCP if ports is not None else 0
    attributes = _RulesetAttributes(everything, network, SCOPE_SIGNAL | SCOPE_ABSTRACT_SOCKETS)
    size = ctypes.sizeof(attributes) if known >= SCOPES else 16 if known >= NETWORK else 8
    ruleset = _checked(libc.syscall(CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path, access in _grants(rules, everything):
            _allow(libc, ruleset, path, access)
        for port in ports or ():
            rule = _NetPort(CONNECT_TCP, port)
            _checked(libc.syscall(ADD_RULE, ruleset, RULE_NET_PORT, ctypes.byref(rule), 0))
        _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(RESTRICT_SELF, ruleset, 0))
        _protect_limits(libc)
    finally:
        os.close(ruleset)


def _protect_limits(libc: ctypes.CDLL) -> None:
    """Refuse prlimit for other processes, and system calls of other architectures, where the kernel has filters."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        return
    architecture, prlimit = ARCHITECTURES[machine]
    program = [
        *((LOAD, 0, 0, ARCHITECTURE), (JUMP_EQUAL, 1, 0, architecture), (RETURN, 0, 0, REFUSED)),
        *((LOAD, 0, 0, CALL), (JUMP_ABOVE, 0, 1, X32), (RETURN, 0, 0, REFUSED)),
        *((JUMP_EQUAL, 1, 0, prlimit), (RETURN, 0, 0, ALLOWED)),
        *((LOAD, 0, 0, PID), (JUMP_EQUAL, 1, 0, 0), (JUMP_EQUAL, 0, 1, os.getpid())),
        *((RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, REFUSED)),
    ]
    instructions = (_Instruction * len(program))(*(_Instruction(*instruction) for instruction in program))
    libc.prctl(PR_SET_SECCOMP, SECCOMP_FILTER, ctypes.byref(_Filter(len(program), instructions)), 0, 0)


def _grants(rules: Rules, everything: int) -> Iterator[tuple[str, int]]:
    """Yield (path, access) of all rules."""
    yield from ((path, everything) for path in rules.writable)
    yield from ((path, EXECUTE | READ_FILE | READ_DIR) for path in rules.readable)
    yield from ((path, READ_DIR) for path in rules.listed)
    if rules.own_process:
        yield f"/proc/{os.getpid()}", everything


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    """Allow access to a file, or to a folder with everything in it. A symbolic link allows nothing."""
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
    """Drop all capabilities except for files from what this process executes. No effect unless it is root."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in set(range(LAST_CAPABILITY + 1)) - FILE_CAPABILITIES:
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # an error for capabilities that the kernel does not have


def main(rules: Rules, command: list[str]) -> None:
    """Become the command, restricted."""
    drop_capabilities()
    restrict(rules)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(Rules(**json.loads(sys.argv[1])), sys.argv[2:])
