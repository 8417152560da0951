"""Forecast of the remaining time: what is still to be done, and the range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config.run import LEARNING_BY_SAMPLING, RunConfig
from trainer.evaluation.suite_runner import is_due
from trainer.loops import forecast
from trainer.loops.forecast import ORDER, RunPosition

SECONDS = st.lists(st.floats(0.01, 1e5), min_size=1, max_size=40)
MEASURED = st.fixed_dictionaries({"rollout": SECONDS, "update": SECONDS}, optional={"evaluate": SECONDS})


def settings(iterations: int, every: int, checkpoint: int, prompts: int = 8, warmup: int = 0) -> RunConfig:
    return RunConfig.model_validate(
        {
            "policy": {"model": "org/model"},
            "iterations": iterations,
            "evaluation": {"every": every, "prompts": prompts, "suites": []},
            "checkpoint": {"every": checkpoint},
            "rollout": {"groups": 4, "group_size": 6},
            "sft": {"warmup_steps": warmup, "batch": 8, "demonstrations": 32},
            "algorithm": {
                "estimator": "grpo",
                "updates_per_rollout": 4,
                "group_filter": "std",
                "group_filter_keep": 0.5,
            },
        }
    )


@given(st.integers(1, 60), st.integers(0, 20), st.integers(1, 20), st.integers(0, 30), st.data())
def test_remaining_phases_are_those_of_the_loop(
    iterations: int, every: int, checkpoint: int, warmup: int, data: st.DataObject
) -> None:
    config = settings(iterations, every, checkpoint, warmup=warmup)
    loop = [("evaluate", -warmup)] if warmup else []  # what the training loop does, in order
    for number in range(1 - warmup, iterations + 1):
        loop += [("rollout", number), ("update", number)] if number > 0 else [("warmup", number)]
        loop += [("evaluate", number)] if is_due(config, number) else []
        loop += [("checkpoint", number)] if number % checkpoint == 0 or number in (0, iterations) else []
    at = data.draw(st.integers(1 if warmup else 0, len(loop) - 1))
    phase, number = loop[at]
    share = data.draw(st.floats(0, 1))
    remaining = forecast.remaining_phases(config, iterations, RunPosition(phase, number, share))
    for name in ORDER:
        expected = sum(later == name for later, _ in loop[at + 1 :]) + (1 - share if name == phase else 0)
        assert remaining[name] == pytest.approx(expected), name


def test_a_warm_up_is_forecast_from_its_first_step_on_and_its_iterations_from_its_pace() -> None:
    config = settings(10, 5, 100, warmup=16)

    def left(measured: forecast.Seconds, position: RunPosition) -> forecast.Forecast | None:
        remaining = forecast.remaining_phases(config, 10, position)
        return forecast.forecast(measured, remaining, forecast.assumed_seconds(measured, config))

    zero_shot = {"evaluate": [16.0]}  # of 8 trajectories
    assert left(zero_shot, RunPosition("evaluate", -16, 0.5)) is None
    assert left(zero_shot, RunPosition("warmup", -15)) is None
    steps, evaluations, iterations = 12 * 4.0, (2 + 1 + 2) * 16.0, 10 * (24 * 2.0 + 24 * 2 * 4.0 / 8)
    found = left(zero_shot | {"warmup": [4.0] * 4}, RunPosition("warmup", -11))
    assert found is not None
    assert found.seconds == pytest.approx(steps + evaluations + iterations)
    assert found.high - found.low > iterations, "nothing of the iterations was measured"
    first = left(zero_shot | {"warmup": [4.0] * 16}, RunPosition("rollout", 1))
    assert first is not None
    assert first.seconds == pytest.approx(iterations + 2 * 16.0)
    later = left(zero_shot | {"warmup": [4.0] * 16, "rollout": [3.0], "update": [9.0]}, RunPosition("rollout", 2))
    assert later is not None
    assert later.seconds == pytest.approx(9 * 12.0 + 2 * 16.0), "what was measured replaces it"
    unevaluated = forecast.assumed_seconds({"warmup": [4.0]}, config)
    assert unevaluated == {"update": 24.0, "rollout": pytest.approx(24 * 4.0 / 8 / LEARNING_BY_SAMPLING)}


@given(MEASURED, st.integers(1, 500), st.floats(0, 1))
def test_the_range_holds_the_estimate_and_shrinks_as_work_is_done(
    measured: dict[str, list[float]], iterations: int, share: float
) -> None:
    config = settings(iterations, 4, 10)

    def left(done: float) -> forecast.Forecast:
        remaining = forecast.remaining_phases(config, iterations, RunPosition("update", 1, done))
        found = forecast.forecast(measured, remaining)
        assert found is not None
        return found

    now, start, end = left(share), left(0.0), left(1.0)
    assert 0 <= now.low <= now.seconds <= now.high
    assert end.seconds <= now.seconds + 1e-6 <= start.seconds + 2e-6


def test_a_steady_run_is_forecast_exactly_and_more_measurements_narrow_the_range() -> None:
    config = settings(10, 5, 5)
    remaining = forecast.remaining_phases(config, 10, RunPosition("rollout", 6, 0.5))
    steady = {"rollout": [2.0] * 5, "update": [6.0] * 5, "evaluate": [10.0] * 2, "checkpoint": [1.0]}
    found = forecast.forecast(steady, remaining)
    assert found is not None
    assert found.seconds == pytest.approx(4.5 * 2 + 5 * 6 + 10 + 1)
    early = forecast.forecast({name: seconds[:1] for name, seconds in steady.items()}, remaining)
    assert early is not None
    assert early.high - early.low > found.high - found.low > 0


def test_without_a_measured_update_there_is_no_forecast() -> None:
    config = settings(10, 5, 5)
    remaining = forecast.remaining_phases(config, 10, RunPosition("update", 1))
    assert forecast.forecast({"rollout": [2.0], "evaluate": [3.0]}, remaining) is None


@given(MEASURED, st.integers(1, 50))
def test_shares_of_an_iteration_add_up(measured: dict[str, list[float]], iteration: int) -> None:
    config = settings(50, 8, 10)
    shares = forecast.iteration_shares(measured, config, 50, iteration)
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert list(shares) == [name for name in ORDER if name in shares]
    assert ("evaluate" in shares) == ("evaluate" in measured and is_due(config, iteration))


def test_the_metrics_of_an_iteration_are_measurements() -> None:
    values = {"time/rollout": 3.0, "time/checkpoint": 1.0, "time/other": 1.5, "reward/mean": 0.2}
    assert forecast.phase_seconds(values) == {"rollout": 3.0, "checkpoint": 1.0, "other": 0.5}
