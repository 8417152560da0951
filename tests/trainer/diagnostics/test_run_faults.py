"""Faults of a run: each check by its limits, the course of a fault, and what is folded under what."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.diagnostics.run_faults import CHECKS, HOLD, WATCHED, RunFaults
from trainer.journal.events import Fault, Faults
from trainer.metrics.fault_causes import CAUSES, consequences
from trainer.metrics.registry import get_spec
from trainer.metrics.training_use import TRAINING_USES

WELL = {
    "attempts/trained": 60.0,
    "attempts/filtered": 60.0,
    "attempts/equal_rewards": 8.0,
    "success/rate": 0.4,
    "reward/zero_std_share": 0.1,
    "rollout/repeated_groups": 0.0,
    "tools/failed_share": 0.1,
    "format/valid_rate": 0.9,
    "format/garbled_share": 0.0,
    "length/truncated_share": 0.02,
    "diversity/think_repetition": 0.05,
    "policy/learning_rate": 1e-5,
    "policy/grad_norm": 0.3,
    "policy/loss": 0.01,
    "update/steps": 4.0,
    "mismatch/k3": 1e-4,
    "mismatch/wrong_tokens": 0.0,
    "throughput/tokens_per_second": 5000.0,
    "cluster/slowest_actor": 0.9,
    "system/disk_free_bytes": 2e11,
    "system/memory_available_bytes": 8e9,
    "system/clock_jump_seconds": 0.0,
}
PLANTED: dict[str, Mapping[str, float]] = {
    "clock_jump": {"system/clock_jump_seconds": -3600.0},
    "low_disk": {"system/disk_free_bytes": 5e8},
    "low_memory": {"system/memory_available_bytes": 1e8},
    "repeated_puzzles": {"rollout/repeated_groups": 1.0},
    "environment_timeouts": {"attempts/timeout": 8.0},
    "environment_errors": {"attempts/environment_error": 16.0},
    "tool_failures": {"tools/failed_share": 0.9},
    "slow_actor": {"cluster/slowest_actor": 0.2},
    "slow_rollout": {"throughput/tokens_per_second": 900.0},
    "wrong_tokens": {"mismatch/wrong_tokens": 0.1},
    "stale_weights": {"rollout/staleness_max": 1.0},
    "mismatch": {"mismatch/k3": 0.02},
    "no_learning_rate": {"policy/learning_rate": 0.0},
    "broken_gradient": {"update/skipped": 2.0},
    "no_gradient": {"policy/grad_norm": 0.0},
    "clipped": {"attempts/clipped": 70.0},
    "garbled_text": {"format/garbled_share": 0.3},
    "repeated_text": {"diversity/think_repetition": 0.7},
    "truncation": {"length/truncated_share": 0.6},
    "no_valid_answer": {"format/valid_rate": 0.0},
    "no_signal": {"reward/zero_std_share": 0.95},
}


def test_every_cause_has_a_check_a_metric_and_a_remedy() -> None:
    assert list(CHECKS) == list(CAUSES)
    assert set(PLANTED) == set(CAUSES)
    for cause in CAUSES.values():
        assert cause.metric in WATCHED
        assert get_spec(cause.metric)
        assert cause.help.endswith(".")
        assert set(cause.explains) <= set(CAUSES)
        assert not cause.use or cause.use in TRAINING_USES


@pytest.mark.parametrize("cause", CAUSES)
def test_a_fault_is_named_within_three_iterations_and_ends_when_it_is_gone(cause: str) -> None:
    detector = RunFaults()
    for iteration in range(1, 7):
        assert detector.update(iteration, WELL) is None
    found = [detector.update(iteration, WELL | PLANTED[cause]) for iteration in (7, 8, 9)]
    (changed,) = [event for event in found if event is not None]
    (fault,) = changed.present
    assert (fault.cause, fault.since) == (cause, changed.iteration)
    assert fault.text.endswith(".")
    healed = [detector.update(iteration, WELL) for iteration in range(10, 10 + HOLD)]
    assert [event.present for event in healed if event is not None] == [[]]


@pytest.mark.parametrize("cause", ["mismatch", "truncation", "garbled_text", "no_valid_answer", "no_signal"])
def test_a_fault_from_the_first_iteration_on_is_named_too(cause: str) -> None:
    always = {"mismatch/k3": 0.3, "length/truncated_share": 0.95, "format/garbled_share": 0.9}
    planted = {name: always.get(name, value) for name, value in PLANTED[cause].items()}
    detector = RunFaults()
    found = [event for n in (1, 2, 3) if (event := detector.update(n, WELL | planted))]
    assert [[fault.cause for fault in event.present] for event in found] == [[cause]]


def test_what_is_normal_is_no_fault() -> None:
    solved = WELL | {"reward/zero_std_share": 1.0, "success/rate": 0.98}
    schedule_ends = WELL | {"policy/learning_rate": 0.0}
    nothing_to_learn = WELL | {"update/skipped": 1.0, "update/skipped_in_a_row": 1.0, "attempts/trained": 0.0}
    one_attempt = WELL | {"attempts/environment_error": 1.0}
    for normal in (solved, nothing_to_learn, one_attempt):
        detector = RunFaults()
        assert [detector.update(n, normal) for n in range(1, 8)] == [None] * 7
    detector = RunFaults()
    assert [detector.update(n, WELL if n < 7 else schedule_ends) for n in range(1, 8)] == [None] * 7
    ahead = RunFaults(max_staleness=2)
    assert [ahead.update(n, WELL | {"rollout/staleness_max": 2.0, "mismatch/k3": 0.2}) for n in range(1, 5)] == [
        None
    ] * 4


def test_an_untrained_policy_whose_calls_always_failed_has_no_broken_tool() -> None:
    detector = RunFaults()
    assert [detector.update(n, WELL | {"tools/failed_share": 0.95}) for n in range(1, 8)] == [None] * 7


def test_consequences_are_folded_under_the_earliest_cause() -> None:
    def fault(cause: str, since: int) -> Fault:
        return Fault(cause=cause, since=since, text="")

    stale = [fault("stale_weights", 4), fault("mismatch", 5), fault("clipped", 6), fault("low_disk", 2)]
    assert consequences(stale) == {"mismatch": "stale_weights", "clipped": "stale_weights"}
    assert consequences([fault("no_signal", 1), fault("environment_errors", 5)]) == {}, "it began before"
    assert consequences([fault("no_signal", 5), fault("environment_errors", 5)]) == {"no_signal": "environment_errors"}
    assert consequences([fault("of a newer version", 1), fault("no_signal", 5)]) == {}


METRICS = st.dictionaries(
    st.sampled_from(WATCHED), st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=len(WATCHED)
)


@given(st.lists(METRICS, max_size=12), st.integers(0, 12))
def test_any_values_are_read_and_an_interruption_changes_nothing(iterations: list[dict[str, float]], at: int) -> None:
    def run(detector: RunFaults, start: int, rows: list[dict[str, float]]) -> list[Faults | None]:
        return [detector.update(number, row) for number, row in enumerate(rows, start=start)]

    whole, first, second = RunFaults(), RunFaults(), RunFaults()
    expected = run(whole, 1, iterations)
    found = run(first, 1, iterations[:at])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert found + run(second, 1 + len(iterations[:at]), iterations[at:]) == expected
