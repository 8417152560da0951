"""CPU time of an idle product: processes count for the program that started them, also when they have ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from bench.idle import SUPERVISOR, use_by_program
from tests.patience import SECONDS

BURN = "import time\nwhile time.process_time() < 0.3: pass"
PROGRAM = f"""
import subprocess, sys
subprocess.run([sys.executable, "-S", "-c", {BURN!r}])
print("burnt", flush=True)
sys.stdin.read()
"""
TREE = f"""
import subprocess, sys
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
program = subprocess.Popen([sys.executable, "-S", "-c", {PROGRAM!r}], **pipes)
program.stdout.readline()
print(program.pid, flush=True)
sys.stdin.read()
program.stdin.close()
program.wait()
"""


@pytest.fixture
def tree() -> Iterator[tuple[int, int]]:
    """Process ids of a supervisor and of its program, whose child has burnt CPU time and ended."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield process.pid, int(process.stdout.readline())
    process.stdin.close()
    process.wait(SECONDS)
    process.stdout.close()


def test_a_child_that_ended_counts_for_its_program(tree: tuple[int, int]) -> None:
    supervisor, program = tree
    uses = use_by_program(supervisor, {program: "Web"})
    assert uses.keys() == {SUPERVISOR, "Web"}
    assert uses["Web"].cpu >= 0.25
    assert uses[SUPERVISOR].cpu < uses["Web"].cpu
    assert [uses[name].processes for name in (SUPERVISOR, "Web")] == [1, 1]
    assert uses["Web"].memory == pytest.approx(psutil.Process(program).memory_full_info().pss / 1e6, rel=0.2)
