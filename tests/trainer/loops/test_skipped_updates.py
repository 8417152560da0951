"""Iterations without an update: nothing changes but the counters, and a run may stop after too many of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer import tiny
from tests.trainer.loops.test_resume import StopCounter, history, play, same_files
from trainer.config.run import EchoTrapConfig, RunConfig
from trainer.journal import reader
from trainer.journal.events import (
    CheckpointSaved,
    GroupsScored,
    Metrics,
    Notice,
    RunFinished,
    RunStarted,
    TrajectoryTokens,
    UpdateSkipped,
)
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import train
from trainer.loops.stages import checkpoints
from trainer.rollout.episode import Episode

FILTER = {"estimator": "gae", "group_filter": "top_p_linear", "group_filter_keep": 0.9}


@pytest.fixture
def rewards(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], float]], None]:
    """Sets the reward of each first turn by the trajectory's id; later turns get none."""

    def use(reward: Callable[[str], float]) -> None:
        def terms(self: Episode, *args: Any, **kwargs: Any) -> dict[str, float]:
            first = not self.trajectory.turns
            return {"environment": reward(self.trajectory.id) if first else 0.0}

        monkeypatch.setattr(Episode, "_reward_terms", terms)

    return use


def iteration_of(name: str) -> int:
    return int(name.partition("-")[0].removeprefix("e"))


def varied(name: str) -> float:
    """A different reward for each member."""
    return float(name[-1])


def only_in(*iterations: int) -> Callable[[str], float]:
    """Groups with spread in these iterations, without in all others."""
    return lambda name: varied(name) if iteration_of(name) in iterations else 1.0


def events(folder: Path, *kinds: type) -> list[Any]:
    return [event for event in reader.read(folder / JOURNAL_FILE) if isinstance(event, kinds)]


def learner_state(folder: Path, iteration: int) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(checkpoints.get_path(folder, iteration) / "learner.pt", weights_only=True)
    return state


def config_of(model: Path, **algorithm: Any) -> RunConfig:
    sections: dict[str, Any] = {"evaluation": {"prompts": 0}, "checkpoint": {"every": 1, "keep": 10}, "iterations": 4}
    return tiny.config(model, **sections, algorithm=FILTER | algorithm)


def test_a_skipped_update_changes_neither_weights_nor_optimisers(pocket_folder, tmp_path, rewards) -> None:
    rewards(only_in(1, 4))
    assert play(config_of(pocket_folder), tmp_path).reason == "completed"
    skipped = [(event.iteration, event.reason, event.consecutive) for event in events(tmp_path, UpdateSkipped)]
    assert skipped == [(2, "filter", 1), (3, "filter", 2)]
    values = {event.iteration: event.values for event in events(tmp_path, Metrics)}
    assert [values[n].get("update/skipped_in_a_row") for n in (1, 2, 3, 4)] == [None, 1, 2, None]
    for n in (2, 3):
        assert values[n]["update/skipped"] == 1
        assert values[n]["filter/kept_share"] == 0
        assert not {"update/steps", "policy/grad_norm", "policy/loss", "filter/kept_std"} & set(values[n])
    assert values[4]["update/steps"] > 0
    weights = [load_file(checkpoints.get_path(tmp_path, n) / "model.safetensors") for n in (1, 2, 3, 4)]
    assert all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])
    assert not all(torch.equal(weights[2][name], weights[3][name]) for name in weights[0])
    before, after = learner_state(tmp_path, 1), learner_state(tmp_path, 3)
    for part in ("policy_optimizer", "critic_optimizer"):
        steps = [state[part]["state"][0]["step"] for state in (before, after)]
        assert steps[0] == steps[1] > 0
    order = [event.type for event in events(tmp_path, GroupsScored, UpdateSkipped, TrajectoryTokens, Metrics)]
    second = order[order.index("update_skipped") - 1 :]
    assert second[:2] == ["groups_scored", "update_skipped"]
    tokens = [event.unlearned for event in events(tmp_path, TrajectoryTokens) if event.trajectory.startswith("00002")]
    assert set(tokens) == {"dropped"}


def test_groups_without_a_signal_are_another_reason(pocket_folder, tmp_path, rewards) -> None:
    rewards(only_in())
    config = config_of(pocket_folder, estimator="grpo", group_filter="none").model_copy(update={"iterations": 1})
    play(config, tmp_path)
    (skipped,) = events(tmp_path, UpdateSkipped)
    assert skipped.reason == "no_signal"
    assert {event.unlearned for event in events(tmp_path, TrajectoryTokens)} == {"no_update"}


@pytest.fixture
def stops_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], EchoTrapConfig]:
    """Returns settings with which a run stops after this number of skipped updates in a row."""

    def use(number: int) -> EchoTrapConfig:
        monkeypatch.setattr(train, "MOST_SKIPPED", number)
        return EchoTrapConfig(action="stop")

    return use


def test_a_run_stops_after_too_many_iterations_without_an_update(pocket_folder, tmp_path, rewards, stops_after) -> None:
    rewards(only_in(1, 3))
    config = config_of(pocket_folder).model_copy(update={"iterations": 9, "echo_trap": stops_after(2)})
    end = play(config, tmp_path)
    assert (end.reason, end.iteration) == ("no_signal", 5)
    assert end.message == (
        "Stopped after iteration 5: no group had a learning signal in 2 iterations in a row (echo_trap.action)."
    )
    assert [event.consecutive for event in events(tmp_path, UpdateSkipped)] == [1, 1, 2]
    (notice,) = events(tmp_path, Notice)
    assert notice.message.startswith("Iteration 2 had no update: the filter kept no group"), "explained once"
    assert events(tmp_path, CheckpointSaved)[-1].iteration == 5
    assert events(tmp_path, RunFinished) == [end]


def test_the_last_iteration_completes_a_run_in_any_case(pocket_folder, tmp_path, rewards, stops_after) -> None:
    rewards(only_in())
    config = config_of(pocket_folder).model_copy(update={"iterations": 2, "echo_trap": stops_after(2)})
    assert play(config, tmp_path / "last").reason == "completed"
    config = config.model_copy(update={"iterations": 3, "echo_trap": EchoTrapConfig()})
    assert play(config, tmp_path / "without").reason == "completed", "a run does not stop by itself"


def test_a_run_that_stops_for_want_of_updates_is_evaluated_once_more(
    pocket_folder, tmp_path, rewards, stops_after
) -> None:
    rewards(lambda name: 1.0)
    config = tiny.config(
        pocket_folder,
        iterations=5,
        algorithm=FILTER,
        evaluation={"prompts": 2, "every": 0},
        echo_trap=stops_after(1),
    )
    play(config, tmp_path)
    assert checkpoints.load_progress(tmp_path, 1).evaluated == 1


@pytest.mark.nightly
def test_a_resumed_run_skips_and_stops_at_the_same_iterations(pocket_folder, tmp_path, rewards, stops_after) -> None:
    rewards(only_in(1, 3))
    config = tiny.config(
        pocket_folder,
        iterations=9,
        algorithm=FILTER,
        evaluation={"prompts": 2, "every": 2},
        checkpoint={"every": 2},
        echo_trap=stops_after(3),
    )
    counter, whole = StopCounter(), tmp_path / "whole"
    assert play(config, whole, counter).reason == "no_signal"
    for share in (0.35, 0.6, 0.97):
        folder = tmp_path / str(share)
        assert play(config, folder, StopCounter(share * counter.count)).reason == "interrupted"
        assert play(config, folder).reason == "no_signal"
        assert len(events(folder, RunStarted)) == 2
        assert history(folder) == history(whole)
        same_files(folder, whole)


def test_the_filter_scales_the_advantages_by_the_kept_share(pocket_folder, tmp_path, rewards) -> None:
    rewards(lambda name: varied(name) * (10 if "g00" in name else 0.001))
    norms = {}
    for scaling in ("none", "linear", "sqrt"):
        config = config_of(
            pocket_folder, estimator="grpo", filter_loss_scaling=scaling, entropy_coef=0.0, group_filter="std",
            group_filter_keep=0.5,
        )  # fmt: skip
        play(config.model_copy(update={"iterations": 1}), tmp_path / scaling)
        (metrics,) = [event for event in events(tmp_path / scaling, Metrics) if "policy/grad_norm" in event.values]
        assert metrics.values["filter/kept_share"] == 0.5
        norms[scaling] = metrics.values["policy/grad_norm"]
    assert norms["linear"] == pytest.approx(0.5 * norms["none"], rel=1e-4)
    assert norms["sqrt"] == pytest.approx(0.5**0.5 * norms["none"], rel=1e-4)
