"""CPU time and memory of the product while nothing runs and no page is open.

    python -m bench.idle                  # three minutes after its start, for two minutes
    python -m bench.idle --seconds 600

Starts the product as `make up` does, in a temporary data folder. It counts CPU time, not elapsed time, so that other
programs of the machine matter little, although they make each wake-up dearer, since its caches are cold. Processes
that end meanwhile, such as PostgreSQL's for short connections, count for the program that started them. Memory is the
proportional set size, which divides pages among the processes that share them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from bench.soak.instance import Instance
from trainer.studies import machine

PROGRAMS = ("Web", "Worker", "Clock", "PostgreSQL", "Redis")
SUPERVISOR = "Supervisor"
SETTLE_SECONDS = 180.0
HEADER = "| program | processes | share of a core | memory, MB |\n| --- | ---: | ---: | ---: |"


@dataclass
class Use:
    """CPU seconds so far, memory in MB and processes of a program."""

    cpu: float = 0.0
    memory: float = 0.0
    processes: int = 0

    def add(self, process: psutil.Process) -> None:
        """Add a process, and its children that have ended."""
        try:
            times, memory = process.cpu_times(), process.memory_full_info().pss
        except psutil.NoSuchProcess:
            return  # its parent has counted it since, or will
        self.cpu += times.user + times.system + times.children_user + times.children_system
        self.memory += memory / 1e6
        self.processes += 1


def use_by_program(supervisor: int, programs: dict[int, str]) -> dict[str, Use]:
    """Return the use of each program, by name, over its process and all its descendants.

    Args:
        supervisor: process id of `manage.py up`, which counts together with its other children.
        programs: name of the program by process id.
    """
    uses: dict[str, Use] = {}

    def visit(process: psutil.Process, name: str) -> None:
        name = programs.get(process.pid, name)
        try:
            children = process.children()
        except psutil.NoSuchProcess:
            return
        uses.setdefault(name, Use()).add(process)
        for child in children:
            visit(child, name)

    visit(psutil.Process(supervisor), SUPERVISOR)
    return uses


def measure(instance: Instance, seconds: float) -> dict[str, Use]:
    """Return the CPU seconds of each program within so many seconds, and its memory at their end."""
    assert instance.process is not None
    programs = {pid: name for name in PROGRAMS if (pid := instance.pid(name)) is not None}
    at_start = use_by_program(instance.process.pid, programs)
    time.sleep(seconds)
    after = use_by_program(instance.process.pid, programs)
    return {name: Use(use.cpu - at_start[name].cpu, use.memory, use.processes) for name, use in after.items()}


def row(name: str, use: Use, seconds: float) -> str:
    """Return a table row."""
    return f"| {name} | {use.processes} | {use.cpu / seconds:.2%} | {use.memory:,.0f} |"


def main() -> None:
    """Start the product, wait, measure, print the table and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--settle", type=float, default=SETTLE_SECONDS, help="seconds to wait before")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="echoscope-idle-"))
    instance = Instance(home / "data", slots=1)
    try:
        instance.start()
        time.sleep(options.settle)
        uses = measure(instance, options.seconds)
    finally:
        instance.stop()
        shutil.rmtree(home, ignore_errors=True)
    values = uses.values()
    total = Use(sum(u.cpu for u in values), sum(u.memory for u in values), sum(u.processes for u in values))
    print(f"{machine.describe()}; {options.seconds:.0f} s; load {psutil.getloadavg()[1]:.1f}\n\n{HEADER}")
    for name, use in sorted(uses.items(), key=lambda item: -item[1].cpu):
        print(row(name, use, options.seconds))
    print(row("all", total, options.seconds))
    if options.json:
        facts = {"machine": machine.describe(), "seconds": options.seconds}
        options.json.write_text(json.dumps(facts | {name: asdict(use) for name, use in uses.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
