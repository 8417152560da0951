"""Benchmark comparison: medians, ratios, and the pipe to contenders in separate processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import iteration
from bench.lib.comparison import OURS, Comparison, ContenderSpec, Task
from bench.lib.worker_protocol import Contender, ContenderError

ECHO = """
from bench.lib.worker_protocol import WorkerConnection
connection = WorkerConnection()
print("a library talks")
connection.answer(versions={"echo": "1"})
while True:
    command = connection.next()
    if command["do"] == "fall":
        raise ValueError("fell over")
    connection.answer(seconds=float(command["do"]), rollout=0.25, update=0.75, cpu=1.0, peak=2**21, norm=1.0)
"""


def answers(*seconds: float, norm: float = 1.0) -> list[dict[str, float]]:
    return [
        {"seconds": took, "rollout": took / 4, "update": took * 3 / 4, "cpu": took, "peak": 2.0**21, "norm": norm}
        for took in seconds
    ]


def comparison(**known: list[dict[str, float]]) -> Comparison:
    entry = ContenderSpec(Path(sys.executable), "nothing", {})
    made = Comparison(dict.fromkeys(known, entry), {"work": Task("step", 100)})
    made.answers = {("work", name): given for name, given in known.items()}
    return made


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContenderSpec:
    """A contender that returns the requested number."""
    (tmp_path / "bench_echo.py").write_text(ECHO)
    python = tmp_path / "python"
    root = Path(__file__).resolve().parents[2]
    path = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(root)!r}]; import runpy"
    python.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "{path}; sys.argv = sys.argv[1:]; '
        "runpy.run_module('bench_echo', run_name='__main__')\" \"$@\"\n"
    )
    python.chmod(0o755)
    return ContenderSpec(python, "bench_echo", {})


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    made = comparison(**{OURS: answers(1, 2, 4), "peer": answers(3, 4, 20)})
    assert made.ratio("work", "peer") == 3
    assert made.median("work", "peer", "seconds") == 4
    assert {line["name"]: line["ratio"] for line in made.figures()} == {OURS: 1, "peer": 3}


def test_tables_list_missed_targets_and_missing_contenders() -> None:
    made = comparison(**{OURS: answers(1.0, 1.0), "TRL": answers(1.5, 1.5)})
    made.missing["other"] = "not installable"
    table = iteration.table(made, aim=2.0)
    assert "1.50 × (aim ≥ 2 × missed)" in table
    assert "| 100 | 1.00 × |" in table
    assert "| 67 | 1.50 × |" in iteration.table(made)
    assert "not installable" in table


def test_a_contender_with_a_different_gradient_is_reported() -> None:
    made = comparison(**{OURS: answers(1.0), "good": answers(1.0, norm=1.01), "odd": answers(1.0, norm=1.2)})
    assert iteration.disagreement(made) == "work, odd: gradient norm 1.2, ours 1"


def test_contenders_alternate_in_rounds_and_the_first_round_is_discarded(echo: ContenderSpec) -> None:
    made = Comparison({OURS: echo, "peer": echo}, {"work": Task("2", 10)})
    messages: list[str] = []
    prepared: list[Contender] = []
    made.play(2, prepared.append, messages.append)
    assert len(prepared) == 1
    assert len(messages) == 3
    assert {name: len(given) for (_, name), given in made.answers.items()} == {OURS: 2, "peer": 2}
    assert made.versions == {"echo": "1"}


def test_a_failing_peer_is_left_out_with_its_last_output(echo: ContenderSpec) -> None:
    contender = echo.start()
    with pytest.raises(ContenderError, match="ValueError: fell over"):
        contender.ask("fall")
    contender.close()
    broken = ContenderSpec(Path(sys.executable), "bench.no_such_module", {})
    made = Comparison({OURS: echo, "peer": broken}, {"work": Task("1", 10)})
    made.play(1, lambda ours: None, lambda text: None)
    assert "No module named" in made.missing["peer"]
    assert [name for _, name in made.answers] == [OURS]
