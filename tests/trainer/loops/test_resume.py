"""A run stopped anywhere and resumed equals the uninterrupted run, event by event and bit by bit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.tiers import nightly_but
from tests.trainer import tiny
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.journal import reader
from trainer.journal.events import (
    CheckpointRemoved,
    Evaluation,
    GroupStarted,
    Metrics,
    Notice,
    RunStarted,
    TrajectoryFinished,
    TrajectoryTokens,
    Turn,
)
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.loops.stages import checkpoints
from trainer.policy.load import ModelError

STARPO_S = {
    "iterations": 3,
    "rollout": {"group_size": 4},
    "algorithm": {
        "estimator": "gae",
        "group_filter": "std",
        "group_filter_keep": 0.5,
        "clip_high": 0.28,
        "updates_per_rollout": 2,
        "kl_coef": 0.01,
        "kl_penalty": "loss_k1",
        "drop_zero_std": False,
    },
    "optimizer": {"mini_batch_trajectories": 2, "policy_lr": 1e-3},
    "evaluation": {"prompts": 2, "every": 1},
    "checkpoint": {"every": 2},
    "diagnostics": {"gradient_terms_every": 2},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "StarPO-S with a critic and Online-2": STARPO_S,
    "the same with LoRA": STARPO_S | {"lora": {"rank": 2, "alpha": 4}},
}
ABOUT_THE_PROCESS = (
    "run_started",
    "phase",
    "notice",
    "faults",
    "timeline",
    "checkpoint",
    "checkpoint_removed",
    "run_finished",
)
CLOCKS = ("time/", "throughput/", "system/", "cluster/")


def history(folder: Path) -> list[dict[str, Any]]:
    """What the journal tells of the run, without clocks, what was replaced later, and the process's own events."""
    recorded: list[tuple[str, int, dict[str, Any]]] = []
    place: dict[str, tuple[str, int]] = {}
    for event in reader.read(folder / JOURNAL_FILE):
        if isinstance(event, RunStarted):
            last = {"train": event.from_iteration, "eval": event.evaluated_iteration}
            recorded = [entry for entry in recorded if entry[1] <= last[entry[0]]]
        if event.type in ABOUT_THE_PROCESS:
            continue
        data = event.model_dump(exclude={"seq", "time"})
        match event:
            case GroupStarted():
                where = event.split, event.iteration
                place |= dict.fromkeys(event.members, where)
            case Turn() | TrajectoryFinished() | TrajectoryTokens():
                where = place[event.trajectory]
            case Metrics():
                data.pop("seconds")
                data["values"] = values = {k: v for k, v in event.values.items() if not k.startswith(CLOCKS)}
                learnt = "reward/mean" in values or "sft/loss" in values
                where = "train" if learnt else "eval", event.iteration
            case Evaluation():
                where = "eval", event.iteration
            case _:
                where = "train", event.iteration
        recorded.append((*where, data))
    return [data for _, _, data in recorded]


class StopCounter:
    """Requests a stop from the n-th check on."""

    def __init__(self, limit: float = float("inf")) -> None:
        self.limit, self.count = limit, 0

    def __call__(self) -> bool:
        self.count += 1
        return self.count > self.limit


def play(config, folder, stop=None):
    return run_factory.run(config, folder, folder / "cache", stop or StopCounter())


@pytest.fixture(scope="module", autouse=True)
def _short_window():
    """Let the detector judge a few iterations already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.loops.train.EchoTrap", partial(EchoTrap, window=2))
        yield


@pytest.fixture(
    scope="module",
    params=nightly_but(VARIANTS, ["StarPO-S with a critic and Online-2"]),
    ids=lambda name: name.replace(" ", "-"),
)
def whole(request, pocket_folder, tmp_path_factory):
    """The settings of a run, the folder of its uninterrupted run, and the number of its stop checks."""
    config, counter = tiny.config(pocket_folder, **VARIANTS[request.param]), StopCounter()
    folder = tmp_path_factory.mktemp("whole")
    assert play(config, folder, counter).reason == "completed"
    learnt = [
        e.values for e in reader.read(folder / JOURNAL_FILE) if isinstance(e, Metrics) and "policy/loss" in e.values
    ]
    assert len(learnt) == 3, "every iteration learns, or there is nothing to compare"
    assert all(values["update/steps"] >= 4 for values in learnt)
    return config, folder, counter.count


def same_files(one: Path, other: Path, *, same_settings: bool = True) -> None:
    """The two runs' final checkpoints hold the same weights, critic, optimisers and memory of the watch."""
    one_path, other_path = (
        checkpoints.get_path(folder, checkpoints.checkpoint_iterations(folder)[-1]) for folder in (one, other)
    )
    assert one_path.name == other_path.name
    for name in sorted(path.name for path in one_path.glob("*.safetensors")):
        left, right = load_file(one_path / name), load_file(other_path / name)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left)
    states = [torch.load(path / "learner.pt", weights_only=True) for path in (one_path, other_path)]
    same_state(*states)
    progress = [checkpoints.load_progress(folder, int(one_path.name)) for folder in (one, other)]
    for state in progress:
        state.seconds = state.checkpoint_seconds = 0.0
        state.phase_seconds = {}
        series = state.echo_trap["faults"]["series"]
        state.echo_trap["faults"] = {name: series[name] for name in series if not name.startswith(CLOCKS)}
        state.config_digest = state.config_digest if same_settings else ""
    assert progress[0] == progress[1]


def same_state(one: Any, other: Any) -> None:
    """Nested dicts and lists of tensors and numbers, equal to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same_state(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same_state(left, right)
    else:
        assert one == other


@pytest.mark.parametrize("share", nightly_but([0.08, 0.55, 0.97], [0.55]))
def test_a_run_resumed_after_any_stop_is_identical(whole, tmp_path, share) -> None:
    config, unbroken, questions = whole
    assert play(config, tmp_path, StopCounter(share * questions)).reason == "interrupted"
    assert play(config, tmp_path).reason == "completed"
    assert history(tmp_path) == history(unbroken)
    same_files(tmp_path, unbroken)


@pytest.mark.nightly
def test_a_run_stopped_repeatedly_is_identical(whole, tmp_path) -> None:
    config, unbroken, questions = whole
    # nine of ten checks come before the first checkpoint, most of them in reference play
    ends = [play(config, tmp_path, StopCounter(share * questions)).reason for share in (0.95, 0.04, 0.04, 1.0)]
    assert ends == ["interrupted", "interrupted", "interrupted", "completed"]
    started = [event for event in reader.read(tmp_path / JOURNAL_FILE) if isinstance(event, RunStarted)]
    assert len(started) >= 3
    assert history(tmp_path) == history(unbroken)
    same_files(tmp_path, unbroken)


@pytest.mark.nightly
def test_the_comparison_detects_another_seed(whole, tmp_path) -> None:
    config, unbroken, _ = whole
    play(config.model_copy(update={"seed": 1}), tmp_path)
    assert history(tmp_path) != history(unbroken)


def newest_weights(folder: Path) -> Path:
    return checkpoints.get_path(folder, checkpoints.checkpoint_iterations(folder)[-1]) / "model.safetensors"


def test_resume_falls_back_to_the_newest_sound_checkpoint(whole, tmp_path) -> None:
    config, unbroken, polls = whole
    config = config.model_copy(update={"checkpoint": config.checkpoint.model_copy(update={"every": 1})})
    assert play(config, tmp_path, StopCounter(0.97 * polls)).reason == "interrupted"
    weights = newest_weights(tmp_path)
    weights.write_bytes(weights.read_bytes()[:-100])
    damaged, older = checkpoints.checkpoint_iterations(tmp_path)[-1], checkpoints.checkpoint_iterations(tmp_path)[-2]
    assert play(config, tmp_path).reason == "completed"
    events = list(reader.read(tmp_path / JOURNAL_FILE))
    started = [event for event in events if isinstance(event, RunStarted)]
    assert started[-1].from_iteration == older
    notices = [event.message for event in events if isinstance(event, Notice)]
    assert any(f"heckpoint {damaged} is damaged (model.safetensors changed" in message for message in notices)
    assert damaged in [event.iteration for event in events if isinstance(event, CheckpointRemoved)]
    same_files(tmp_path, unbroken, same_settings=False)


@pytest.mark.nightly
def test_resume_reports_that_no_checkpoint_is_sound_and_can_then_start_over(whole, tmp_path) -> None:
    config, unbroken, polls = whole
    assert play(config, tmp_path, StopCounter(0.97 * polls)).reason == "interrupted"
    for iteration in checkpoints.checkpoint_iterations(tmp_path):
        (checkpoints.get_path(tmp_path, iteration) / "state.json").write_text("")
    with pytest.raises(ModelError, match="No checkpoint of this run can be read"):
        play(config, tmp_path)
    assert play(config, tmp_path).reason == "completed"
    same_files(tmp_path, unbroken)


@pytest.mark.nightly
def test_time_of_the_last_checkpoint_is_reported_after_a_resume(whole, tmp_path) -> None:
    config, _, polls = whole
    config = config.model_copy(update={"checkpoint": config.checkpoint.model_copy(update={"every": 1})})
    play(config, tmp_path, StopCounter(0.55 * polls))
    saved = checkpoints.checkpoint_iterations(tmp_path)[-1]
    seconds = checkpoints.load_progress(tmp_path, saved).checkpoint_seconds
    play(config, tmp_path)
    metrics = [event for event in reader.read(tmp_path / JOURNAL_FILE) if isinstance(event, Metrics)]
    after = next(event.values for event in metrics if event.iteration == saved + 1 and "policy/loss" in event.values)
    assert 0 < seconds <= after["time/checkpoint"]
