"""Formatting on server and browser: identical text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tests.webapp.javascript import evaluate
from webapp.core import formatting
from webapp.core.formatting import RunLength

PHASES: list[dict[str, Any]] = [
    {
        "phase": "rollout",
        "iteration": 37,
        "done": 96,
        "total": 128,
        "unit": "trajectories",
        "tokens_per_second": 5310.4,
        "eta_seconds": 540,
    },
    {
        "phase": "load",
        "iteration": 0,
        "done": 0,
        "total": 0,
        "unit": "",
        "tokens_per_second": None,
        "eta_seconds": None,
    },
    {
        "phase": "warmup",
        "iteration": 0,
        "done": 1200,
        "total": 1260,
        "unit": "steps",
        "tokens_per_second": None,
        "eta_seconds": 4000,
    },
    {
        "phase": "update",
        "iteration": 200,
        "done": 0,
        "total": 0,
        "unit": "",
        "tokens_per_second": 0.4,
        "eta_seconds": 90,
    },
    {
        "phase": "update",
        "iteration": 5,
        "done": 6,
        "total": 24,
        "unit": "micro-batches",
        "tokens_per_second": None,
        "eta_seconds": 600,
        "eta_low_seconds": 480,
        "eta_high_seconds": 780,
        "share": 0.25,
        "iteration_shares": {"rollout": 0.3, "update": 0.5, "evaluate": 0.2},
        "update": {"stage": "step", "pass_number": 1, "passes": 2, "groups": [0, 3]},
    },
    {
        "phase": "update",
        "iteration": 5,
        "done": 2,
        "total": 16,
        "unit": "thoughts",
        "tokens_per_second": None,
        "eta_seconds": 20,
        "eta_low_seconds": 20.1,
        "eta_high_seconds": 20.2,
        "share": 0.0,
        "iteration_shares": None,
        "update": {"stage": "prepare", "pass_number": 0, "passes": 0, "groups": []},
    },
]
LONG = RunLength(200)
LENGTHS = [LONG, RunLength(0), *(RunLength(12, at, 1260, 0.2) for at in (-1260, -60, 0, 5)), RunLength(12, -1, 1, 0.5)]
NUMBERS = [0, -0.0, 0.004, -0.004, -0.1, 10.9, -1, 2.345, 99.999, -123.4, 1e-9, 123_456_789, 1e15, -1e308]
SHARES = [0, 0.004, 0.2969, 0.5, 0.9999, 1]
SECONDS = [0.2, 1, 59, 89, 90, 91, 600, 5399, 5400, 7261, 86_400, 172_799, 200_000, 10_000_000]
LOST = {"turn": 1, "action": 2, "reason": "the box is in a corner"}
OUTCOMES = [
    {"success": success, "end": end, "turns": turns, "actions": 6, "lost_at": lost}
    for success, end, turns, lost in [
        (True, "terminated", 2, None),
        (False, "turns", 5, LOST),
        (False, "turns", 5, None),
        (None, None, 1, None),
        (False, "actions", 3, None),
        (False, "truncated", 1, None),
        (False, "interrupted", 1, None),
        (False, "terminated", 1, None),
    ]
]


def test_the_phase_is_described() -> None:
    assert formatting.phase_text(PHASES[0], LONG) == "Iteration 37 of 200 · rollout 96 of 128 trajectories"
    assert formatting.phase_text(PHASES[1], LONG) == "Before the first iteration · loading the policy"
    assert formatting.phase_text(PHASES[0], RunLength(0)) == "Rollout 96 of 128 trajectories", (
        "a run that only evaluates"
    )
    assert formatting.progress(PHASES[0], RunLength(0), "running") == 0.75
    assert formatting.phase_text(PHASES[4], LONG) == "Iteration 5 of 200 · update: pass 1 of 2, micro-batch 7 of 24"
    assert (
        formatting.phase_text(PHASES[5], LONG) == "Iteration 5 of 200 · update: measuring the rollout, thought 3 of 16"
    )
    assert formatting.pace_text(PHASES[4], "", "running") == "10 min left (8 min to 13 min)"
    assert formatting.pace_text(PHASES[5], "", "running") == "20 s left", "both ends of the range read the same"
    assert formatting.progress(PHASES[4], RunLength(10), "running") == pytest.approx(0.4 + (0.3 + 0.25 * 0.5) / 10)
    assert (
        formatting.pace_text(PHASES[0], "CPU, 2 threads", "running") == "5,310 tokens/s · CPU, 2 threads · 9 min left"
    )


def test_a_warm_up_is_described_by_its_steps_and_is_a_part_of_the_bar() -> None:
    def phase(name: str, done: int, total: int, unit: str, iteration: int = 0) -> dict[str, Any]:
        return PHASES[1] | {"phase": name, "done": done, "total": total, "unit": unit, "iteration": iteration}

    def length(iteration: int) -> RunLength:
        return RunLength(12, iteration, warmup_steps=16, warmup_share=0.2)

    for now, at, text, share in [
        (phase("load", 0, 0, ""), 0, "Before the first iteration · loading the policy", 0.0),
        (phase("warmup", 9, 36, "demonstrations"), 0, "Warm-up 0 of 16 steps · 9 of 36 demonstrations", 0.0),
        (phase("evaluate", 2, 8, "trajectories"), -16, "Warm-up 0 of 16 steps · evaluation 2 of 8 trajectories", 0.0),
        (phase("warmup", 5, 16, "steps"), -11, "Warm-up 5 of 16 steps", 0.2 * 5 / 16),
        (phase("warmup", 5, 16, "steps") | {"share": 0.34}, -11, "Warm-up 5 of 16 steps", 0.2 * 0.34),
        (phase("evaluate", 2, 8, "trajectories"), -8, "Warm-up 8 of 16 steps · evaluation 2 of 8 trajectories", 0.1),
        (
            phase("evaluate", 2, 8, "trajectories"),
            0,
            "Before the first iteration · evaluation 2 of 8 trajectories",
            0.2,
        ),
        (phase("rollout", 0, 24, "trajectories", 7), 6, "Iteration 7 of 12 · rollout 0 of 24 trajectories", 0.6),
    ]:
        assert formatting.phase_text(now, length(at)) == text
        assert formatting.progress(now, length(at), "running") == pytest.approx(share), text


def test_the_outcome_is_described() -> None:
    assert formatting.outcome(True, "terminated", 2, 6) == "solved in 2 turns, 6 actions"
    assert formatting.outcome(False, "turns", 5, 6, LOST) == "lost at turn 2, action 3: the box is in a corner"


def test_numbers_of_a_column_have_the_same_decimals() -> None:
    assert [formatting.signed(value) for value in (10, -1, -1.5, 10.3, 0, 0.15, -120.4)] == [
        "+10.0",
        "−1.0",
        "−1.5",
        "+10.3",
        "0.0",
        "+0.15",
        "−120",
    ]
    assert [formatting.percent(share) for share in (0, 0.2969, 1)] == ["0.0%", "29.7%", "100.0%"]


def test_browser_and_server_format_identically() -> None:
    expression = """({
        signed: data.numbers.map(signed),
        fixed: data.numbers.map((value) => number(value, 1)),
        shares: data.shares.map(percent),
        durations: data.seconds.map(duration),
        outcomes: data.outcomes.map(outcome),
        phases: data.phases.map((phase) => data.lengths.map((run) => phaseText(phase, run))),
        paces: data.phases.map((phase) => paceText(phase, "CPU", "running")),
        progress: data.phases.flatMap((phase) => data.lengths.map((run) => progress(phase, run, "running"))),
        states: STATES,
    })"""
    formatted = evaluate(
        "ui/formatting.js",
        expression,
        {
            "numbers": NUMBERS,
            "shares": SHARES,
            "seconds": SECONDS,
            "outcomes": OUTCOMES,
            "phases": PHASES,
            "lengths": [asdict(length) for length in LENGTHS],
        },
    )
    assert formatted["signed"] == [formatting.signed(value) for value in NUMBERS]
    assert formatted["fixed"][-3:] == [formatting.number(value, 1) for value in NUMBERS[-3:]]
    assert formatted["fixed"][-1] == "−1.00e+308"
    assert formatted["shares"] == [formatting.percent(share) for share in SHARES]
    assert formatted["durations"] == [formatting.duration(value) for value in SECONDS]
    assert formatted["outcomes"] == [formatting.outcome(**result) for result in OUTCOMES]  # type: ignore[arg-type]
    assert formatted["phases"] == [[formatting.phase_text(phase, length) for length in LENGTHS] for phase in PHASES]
    assert formatted["paces"] == [formatting.pace_text(phase, "CPU", "running") for phase in PHASES]
    assert formatted["progress"] == pytest.approx(
        [formatting.progress(phase, length, "running") for phase in PHASES for length in LENGTHS]
    )
    assert formatted["states"] == formatting.STATES
