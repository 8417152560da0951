"""Runs a policy's code in a separate process, which gives up all rights before the first line.

Started by `envs.tools.python_tool` with the code on standard input. Afterwards only memory and the open pipes can be
used: the kernel (seccomp) refuses files, network, other processes and signals, and limits memory and time. Imports only
the standard library: the package is not on its path.
"""

import ast
import ctypes
import importlib
import os
import platform
import resource
import sys

MODULES = """
bisect calendar cmath collections copy dataclasses datetime decimal enum fractions functools heapq itertools json math
numbers operator random re statistics string textwrap time typing unicodedata
"""
"""Modules that code may import, loaded before files become inaccessible."""
READY = b"\x06"
"""First byte of the output, written once the process has given up all rights and before the code begins."""

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_ALLOWED = {
    "read": (0, 63),
    "write": (1, 64),
    "writev": (20, 66),
    "close": (3, 57),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "sched_yield": (24, 124),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrandom": (318, 278),
    "futex": (202, 98),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
"""System call → its number on x86-64 and on 64-bit ARM."""
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050001  # the last value: error EPERM
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_X32 = 0x40000000


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("true", ctypes.c_uint8), ("false", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


def filter_program(machine: str) -> list[tuple[int, int, int, int]]:
    """Return the filter as BPF instructions (code, jump if true, jump if false, operand). Raises KeyError."""
    architecture, column = _ARCHITECTURES[machine]
    program = [(_LOAD, 0, 0, 4), (_JUMP_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    program += [(_JUMP_ABOVE, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for numbers in _ALLOWED.values():
        program += [(_JUMP_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _ALLOW)]
    return [*program, (_RETURN, 0, 0, _REFUSE)]


def give_up_rights(memory: int, seconds: int) -> bool:
    """Limit this process for good. Returns False if the kernel has no seccomp filter."""
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    if platform.machine() not in _ARCHITECTURES or not sys.platform.startswith("linux"):
        return False
    program = filter_program(platform.machine())
    instructions = (_Instruction * len(program))(*(_Instruction(*instruction) for instruction in program))
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    return not kernel.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(_Program(len(program), instructions)))


def run(code: str) -> int:
    """Run the code, and print the value of a last expression. Returns the exit status: 1 after an exception."""
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        tree = ast.parse(code, "<code>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<code>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<code>", "eval"), names)
            if value is not None:
                sys.stdout.write(f"{value!r}\n")
    except SystemExit:
        return 0
    except BaseException as error:  # noqa: BLE001 whatever the code raises is its result
        sys.stdout.write(_message(error))
        return 1
    return 0


def _message(error: BaseException) -> str:
    """Return the error in one line, with the line of the code."""
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<code>":
            line = trace.tb_lineno
        trace = trace.tb_next
    text = f"{type(error).__name__}: {getattr(error, 'msg', None) or error}".rstrip(": ")
    return f"{text} (line {line})" if line else text


def main() -> int:
    """Run with two arguments: memory in bytes, processor time in seconds.

    Exits without READY if isolation is missing.
    """
    code = sys.stdin.buffer.read().decode("utf-8", "replace")
    modules = {name: importlib.import_module(name) for name in MODULES.split()}
    modules["random"].seed(0)  # only in this process
    if not give_up_rights(int(sys.argv[1]), int(sys.argv[2])):
        return 1
    os.write(1, READY)
    status = run(code)
    try:
        sys.stdout.flush()
    except OSError:
        pass
    return status


if __name__ == "__main__":
    sys.exit(main())
