"""Metrics of an iteration: every name of the specification's table, in runs with and without a critic."""

from __future__ import annotations

import pytest

from tests.tiers import nightly_but
from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from tests.trainer.metrics.test_registry import STABLE
from trainer.journal.events import Metrics
from trainer.loops import reporter
from trainer.loops.reporter import PhaseTimer
from trainer.metrics.timeline import Timeline
from trainer.rollout.response_parser import parse_response

WITH_A_CRITIC = ["value/loss", "value/explained_variance"]
ELSEWHERE = ("eval/", "echo_trap/", "hosted/", "claims/true_share", "system/", "thoughts/", "corrections/")
"""Metrics of evaluations, of the detector once it has enough values, of hosted models, of thoughts with claims, of the
machine, and of answers about an evaluation."""
ALWAYS = [
    *(name for name in STABLE if not name.startswith(ELSEWHERE) and name not in (*WITH_A_CRITIC, "time/evaluate")),
    "time/other",
]
OF_AN_EVALUATION = [
    "success",
    "success_low",
    "success_high",
    "success_best_play",
    "success_random_play",
    "pass@1",
    "pass@2",
]


def with_valid_format(response, *, think, max_actions):
    """Replaces responses by valid ones, half of them with a second, more expensive move."""
    response = tiny.answer(*["Left", "Right"][: 1 + len(response) % 2])
    return parse_response(response, think=True, max_actions=max_actions)


@pytest.mark.parametrize("estimator", nightly_but(["gae", "grpo"], ["gae"]))
def test_every_name_of_the_table_is_measured(pocket_folder, tmp_path, monkeypatch, estimator) -> None:
    monkeypatch.setattr("trainer.rollout.episode.parse_response", with_valid_format)
    config = tiny.config(
        pocket_folder,
        rollout={"groups": 3, "group_size": 4},
        algorithm={"estimator": estimator, "group_filter": "std", "group_filter_keep": 0.7},
        evaluation={"prompts": 3, "every": 1, "samples_per_prompt": 2},
    )
    assert run(config, tmp_path).reason == "completed"
    learnt = [event.values for event in events(tmp_path, Metrics) if "reward/mean" in event.values]
    assert len(learnt) == 2
    for values in learnt:
        wanted = ALWAYS + WITH_A_CRITIC * (estimator == "gae")
        assert [name for name in wanted if name not in values] == []
        assert not any(name.startswith("value/") for name in values) or estimator == "gae"
    evaluations = [event.values for event in events(tmp_path, Metrics) if "time/evaluate" in event.values]
    assert len(evaluations) == 3
    for values in evaluations:
        assert [name for name in OF_AN_EVALUATION if f"eval/Sokoban/{name}" not in values] == []


def test_the_parts_and_the_rest_of_a_lap_add_up(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr(reporter.time, "monotonic", lambda: now[0])

    def pass_by(seconds):
        now[0] += seconds

    laps = PhaseTimer(Timeline())
    pass_by(7)
    laps.start()
    for part, seconds in (("rollout", 3.0), ("update", 2.0)):
        with laps.phase(part):
            pass_by(seconds)
        pass_by(0.25)
    assert laps.finish() == {"time/rollout": 3.0, "time/update": 2.0, "time/other": 0.5}
    for part, seconds in (("evaluate", 5.0), ("checkpoint", 1.0), ("rollout", 3.0), ("rollout", 1.0)):
        with laps.phase(part):
            pass_by(seconds)
    pass_by(0.5)
    recorded = laps.finish()
    assert recorded == {"time/rollout": 4.0, "time/checkpoint": 1.0, "time/other": 1.5}, (
        "evaluations have a metric of their own"
    )


def test_a_run_reports_the_cost_of_its_checkpoints(pocket_folder, tmp_path) -> None:
    config = tiny.config(pocket_folder, iterations=3, algorithm={"estimator": "gae"}, checkpoint={"every": 2})
    run(config, tmp_path)
    learnt = [event.values for event in events(tmp_path, Metrics) if "reward/mean" in event.values]
    assert ["time/checkpoint" in values for values in learnt] == [False, False, True]
    assert all(0 <= values.get("time/checkpoint", 0) <= values["time/other"] for values in learnt)
