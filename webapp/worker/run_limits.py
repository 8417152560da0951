"""Limits of each run on this worker: memory, disk, processes and time. The operator can change each limit.

Memory is watched instead of limited by the kernel: RLIMIT_AS counts addresses, and CUDA reserves many times what it
uses. RLIMIT_NPROC would count all processes of the account, including the site's.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainer.memory.available import available_memory
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.worker import parent_guard

GB = 1_000_000_000
_PAGE = os.sysconf("SC_PAGE_SIZE")
_BLOCK = 512  # unit of st_blocks
_HIDDEN = (FileNotFoundError, ProcessLookupError, PermissionError)
"""Answers of /proc for processes that have ended, or belong to another account (mount option hidepid)."""


@dataclass(frozen=True)
class RunLimits:
    """Limits of one run; 0 means no limit.

    Attributes:
        memory: bytes of main memory that all its processes may use.
        disk: bytes in its folder.
        file: bytes of a single file.
        processes: number of its processes.
        seconds: training time since its last start.
    """

    memory: int = 0
    disk: int = 0
    file: int = 0
    processes: int = 0
    seconds: float = 0


def _memory_share() -> float:
    """Return most of this machine's memory, or of the container's, in GB; 0 if it is unknown."""
    memory = available_memory()
    return round(MEMORY_SHARE * memory[1] / GB, 1) if memory else 0


MEMORY_SHARE = 0.9
"""Share of the machine: for a run that needs more, the system might end one of the site's programs instead."""
DEFAULTS: dict[str, Callable[[], float]] = {
    "ECHOSCOPE_RUN_MEMORY_GB": _memory_share,
    "ECHOSCOPE_RUN_DISK_GB": lambda: 1000,
    "ECHOSCOPE_RUN_FILE_GB": lambda: 0,
    "ECHOSCOPE_RUN_PROCESSES": lambda: 10_000,
    "ECHOSCOPE_RUN_HOURS": lambda: 720,
}


def configured_limits(environ: Mapping[str, str] = os.environ) -> RunLimits:
    """Return the operator's limits. Raises ValueError for a variable that is negative or not a number."""
    value = {name: _number(environ, name) for name in DEFAULTS}
    return RunLimits(
        memory=int(GB * value["ECHOSCOPE_RUN_MEMORY_GB"]),
        disk=int(GB * value["ECHOSCOPE_RUN_DISK_GB"]),
        file=int(GB * value["ECHOSCOPE_RUN_FILE_GB"]),
        processes=int(value["ECHOSCOPE_RUN_PROCESSES"]),
        seconds=3600 * value["ECHOSCOPE_RUN_HOURS"],
    )


def _number(environ: Mapping[str, str], name: str) -> float:
    text = environ.get(name, "").strip() or str(DEFAULTS[name]())
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a number, 0 for no limit, not {text!r}.")
    return value


@dataclass(frozen=True)
class ExceededLimit:
    """A limit that a run has exceeded. If `gentle`, the trainer may still write a checkpoint."""

    message: str
    gentle: bool = False


class LimitMonitor:
    """Compares a trainer with its limits. Each call costs a walk through /proc and the run's folder."""

    def __init__(
        self,
        limits: RunLimits,
        folder: Path,
        pid: int,
        tag: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tag` (parent_guard.TAG) finds processes of the trainer whose parents have ended."""
        self._limits, self._folder, self._pid, self._tag, self._clock = limits, folder, pid, tag, clock
        self._began = clock()

    def exceeded(self) -> ExceededLimit | None:
        """Return the first limit that the run exceeds now, or None."""
        limits = self._limits
        if limits.seconds and self._clock() - self._began > limits.seconds:
            hours = f"{limits.seconds / 3600:g} hours"
            return ExceededLimit(_message(f"trained for {hours}", hours, "ECHOSCOPE_RUN_HOURS"), gentle=True)
        if limits.disk and (exceeded := _exceeded_disk(self._folder, limits.disk)):
            return exceeded
        if not limits.memory and not limits.processes:
            return None
        pids = sorted({*process_tree(self._pid), *parent_guard.tagged_processes(self._tag)})
        if limits.processes and len(pids) > limits.processes:
            used_words = f"had {len(pids)} processes"
            return ExceededLimit(_message(used_words, str(limits.processes), "ECHOSCOPE_RUN_PROCESSES"))
        if limits.memory and (used := memory_bytes(pids, limits.memory)) > limits.memory:
            return _exceeded_bytes("memory", used, limits.memory, "ECHOSCOPE_RUN_MEMORY_GB")
        return None


def _exceeded_disk(folder: Path, limit: int) -> ExceededLimit | None:
    """Check whether the folder is larger than the limit, or could hide that it is."""
    hidden: list[str] = []
    if (used := folder_bytes(folder, hidden)) > limit:
        return _exceeded_bytes("disk space", used, limit, "ECHOSCOPE_RUN_DISK_GB")
    if hidden:
        name = ascii(hidden[0][:100])
        return ExceededLimit(f"The run was ended: its folder {name} is closed or too deep, so it has no known size.")
    return None


def _exceeded_bytes(what: str, used: int, limit: int, variable: str) -> ExceededLimit:
    return ExceededLimit(_message(f"used {used / GB:.4g} GB of {what}", f"{limit / GB:.4g} GB", variable))


def _message(used: str, limit: str, variable: str) -> str:
    return f"The run {used}; the operator of this site allows {limit} per run ({variable}), so it was ended."


def folder_bytes(folder: Path, hidden: list[str] | None = None) -> int:
    """Return the bytes that a folder occupies on disk with its sub-folders. Unreadable sub-folders go to `hidden`."""
    return _BLOCK * sum(facts.st_blocks for _, facts in UntrustedFolder(folder).walk(refused=hidden))


def process_tree(pid: int) -> list[int]:
    """Return a process, its group and all their descendants; only the process itself on systems without /proc."""
    groups: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if Path("/proc/self/stat").exists() else ():
        if not name.isdecimal():
            continue
        try:
            stat = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
        except _HIDDEN:
            continue
        state, parent, group = stat[stat.rindex(")") + 2 :].split()[:3]
        if state not in "ZX":
            groups[int(name)] = int(group)
            children.setdefault(int(parent), []).append(int(name))
    members = {pid}
    reached = [pid, *(member for member, group in groups.items() if group == pid)]
    while reached:
        member = reached.pop()
        members.add(member)
        reached.extend(child for child in children.get(member, ()) if child not in members)
    return sorted(members)


def memory_bytes(pids: list[int], limit: int) -> int:
    """Return the main memory of these processes in bytes; shared pages count once where the system tells.

    Resident pages are counted first, which is cheap; shared pages are divided only if the sum exceeds `limit`.
    """
    resident = sum(_resident(pid) for pid in pids)
    return resident if resident <= limit else sum(_proportional(pid) for pid in pids)


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except _HIDDEN:
        return 0


def _proportional(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except PermissionError:
        pass
    return _resident(pid)
