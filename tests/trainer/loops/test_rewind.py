"""On collapse a run rewinds to its last sound checkpoint and continues with other settings, and the site follows."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import ClassVar

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.trainer import tiny
from trainer.config import rewind
from trainer.config.run import RunConfig
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.journal import reader
from trainer.journal.events import Alarm, GroupStarted, Metrics, Rewound, RunStarted, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.loops.stages import checkpoints

CHANGES = {"optimizer.policy_lr": "*0.5", "algorithm.entropy_coef": 0.02}


class ScriptedTrap(EchoTrap):
    """A detector whose alarms are scripted: real play, real updates, real alarms."""

    collapses: ClassVar[tuple[int, ...]] = ()
    """Iterations at which it reports a collapse, each time they are reached."""
    signs: ClassVar[tuple[int, ...]] = ()
    """Iterations at which it sees first signs."""

    def __init__(self) -> None:
        super().__init__(window=2)

    def update(self, iteration, metrics, fault=""):
        super().update(iteration, metrics, fault)
        self.memory.low_spread = int(iteration in self.signs)
        self.since = next((first for first in self.signs if first <= iteration), None)
        if iteration not in self.collapses:
            return None
        self.state = "trapped"
        return Alarm(iteration=iteration, state="trapped", message="Collapse: as the test says.")


def configuration(model, **sections) -> RunConfig:
    trap = {"action": "rewind", "rewind_changes": CHANGES}
    shape = {"iterations": 4, "echo_trap": trap, "evaluation": {"prompts": 2, "every": 2}}
    shape["algorithm"] = {"estimator": "gae"}
    return tiny.config(model, **shape | sections)


def play(config, folder, *, at=(), uneasy=(), stop=lambda: False, limit=2):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedTrap, "collapses", at)
        patch.setattr(ScriptedTrap, "signs", uneasy)
        patch.setattr("trainer.loops.train.EchoTrap", ScriptedTrap)
        patch.setattr(rewind, "MAX_REWINDS", limit)
        return run_factory.run(config, folder, folder / "cache", stop)


def events(folder, kind=None):
    return [e for e in reader.read(folder / JOURNAL_FILE) if kind is None or isinstance(e, kind)]


def seeds_of_attempts(folder):
    """For each attempt the seeds of its training groups."""
    found = []
    for event in events(folder):
        if isinstance(event, RunStarted):
            found.append(set())
        elif isinstance(event, GroupStarted) and event.split == "train":
            found[-1].add(event.seed)
    return found


def same_weights(one, other):
    one, other = (load_file(checkpoints.get_path(folder, 4) / "model.safetensors") for folder in (one, other))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def rewound(pocket_folder, tmp_path_factory):
    """A run that collapses at iteration 3 each time it gets there, and may rewind twice."""
    folder = tmp_path_factory.mktemp("rewound")
    return folder, play(configuration(pocket_folder), folder, at=(3,), uneasy=(2,))


def test_it_rewinds_up_to_the_limit_and_then_stops(rewound):
    folder, end = rewound
    recorded = events(folder, Rewound)
    assert [(e.number, e.from_iteration, e.to_iteration) for e in recorded] == [(1, 3, 1), (2, 3, 1)]
    started = [(e.attempt, e.from_iteration, e.evaluated_iteration) for e in events(folder, RunStarted)]
    assert started == [(1, 0, -1), (2, 1, 0), (3, 1, 0)], "iteration 2 showed first signs: not sound"
    assert (end.reason, end.iteration) == ("echo_trap", 3)
    assert end.message == "Stopped by the Echo Trap detector after iteration 3, after 2 rewinds."
    assert [e.seq for e in events(folder)] == list(range(1, len(events(folder)) + 1))


def test_it_continues_with_the_configured_changes_and_logs_them(rewound):
    folder, _ = rewound
    assert [e.changes for e in events(folder, Rewound)] == [
        {"optimizer.policy_lr": "5e-05", "algorithm.entropy_coef": "0.02"},
        {"optimizer.policy_lr": "2.5e-05", "algorithm.entropy_coef": "0.02"},
    ]
    recorded = [e.config for e in events(folder, RunStarted)]
    assert [c["optimizer"]["policy_lr"] for c in recorded] == [1e-4, 5e-5, 2.5e-5]
    assert [c["algorithm"]["entropy_coef"] for c in recorded] == [0.001, 0.02, 0.02]
    assert [c["echo_trap"]["action"] for c in recorded] == ["rewind"] * 3
    rates, attempt = {}, 0
    for event in events(folder):
        if isinstance(event, RunStarted):
            attempt = event.attempt
        elif isinstance(event, Metrics) and "policy/learning_rate" in event.values:
            rates.setdefault(attempt, set()).add(event.values["policy/learning_rate"])
    assert rates == {1: {1e-4}, 2: {5e-5}, 3: {2.5e-5}}
    notices = [e.message for e in events(folder) if e.type == "notice"]
    assert len(notices) == 2
    assert notices[0].startswith("Collapsed by iteration 3: rewind 1 of 2, back to iteration 1, continuing with ")


def test_the_optimiser_uses_the_changed_rate_after_a_rewind(rewound, pocket_folder):
    folder, _ = rewound
    state = torch.load(checkpoints.get_path(folder, 3) / "learner.pt", weights_only=True)
    assert [group["lr"] for group in state["policy_optimizer"]["param_groups"]] == [2.5e-5]


def test_no_initial_state_and_no_dialogue_is_played_again(rewound):
    folder, _ = rewound
    attempts = seeds_of_attempts(folder)
    assert len(set.union(*attempts)) == sum(map(len, attempts)), "every group of every attempt has a seed of its own"
    evaluations = [e.seed for e in events(folder, GroupStarted) if e.split == "eval"]
    assert len(set(evaluations)) == 2, "the evaluation stays the same"


def test_nothing_after_the_sound_checkpoint_is_left_on_disk(pocket_folder, tmp_path):
    config = configuration(pocket_folder, checkpoint={"every": 1, "keep": 10})
    play(config, tmp_path, at=(3,), uneasy=(2,), stop=lambda: len(events(tmp_path, Rewound)) > 0)
    assert checkpoints.checkpoint_iterations(tmp_path) == [0, 1]
    removed = [e.iteration for e in events(tmp_path) if e.type == "checkpoint_removed"]
    assert removed == [2]
    assert checkpoints.load_progress(tmp_path, 1).rewinds == 1


def test_without_a_sound_checkpoint_it_restarts_from_the_beginning(pocket_folder, tmp_path):
    play(configuration(pocket_folder), tmp_path, at=(3,), uneasy=(1, 2), limit=1)
    assert [(e.number, e.to_iteration) for e in events(tmp_path, Rewound)] == [(1, 0)]
    assert [(e.from_iteration, e.evaluated_iteration) for e in events(tmp_path, RunStarted)] == [(0, -1), (0, 0)]


def test_pruning_keeps_the_last_sound_checkpoint(pocket_folder, tmp_path):
    config = configuration(pocket_folder, iterations=6, checkpoint={"every": 1, "keep": 2}, evaluation={"prompts": 0})
    end = play(config, tmp_path, uneasy=(3, 4, 5, 6))
    assert end.reason == "completed"
    assert checkpoints.checkpoint_iterations(tmp_path) == [2, 5, 6]


@pytest.mark.nightly
def test_a_run_stopped_after_a_rewind_resumes_identically(pocket_folder, tmp_path):
    config = configuration(pocket_folder)
    for name in ("whole", "halves"):
        (tmp_path / name).mkdir()
    collapse_once = {"at": (3,), "uneasy": (2,), "limit": 1}

    def second_attempt_plays(folder):
        started = len(events(folder, RunStarted)) if (folder / JOURNAL_FILE).exists() else 0
        return started == 2 and isinstance(events(folder)[-1], Turn)

    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert play(config, whole, **collapse_once).reason == "echo_trap"
    end = play(config, halves, **collapse_once, stop=lambda: second_attempt_plays(halves))
    assert (end.reason, end.iteration) == ("interrupted", 1)
    assert play(config, halves, **collapse_once).reason == "echo_trap"
    assert [e.attempt for e in events(halves, RunStarted)] == [1, 2, 3]
    assert len(events(halves, Rewound)) == 1, "what was used up stays used up"

    def last_turns(folder):
        return {(e.trajectory, e.turn): (e.state, e.response, e.logprob) for e in events(folder, Turn)}

    assert last_turns(halves) == last_turns(whole)
    one, other = (load_file(checkpoints.get_path(f, 3) / "model.safetensors") for f in (whole, halves))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_kill_before_the_rewind_is_made_repeats_it(pocket_folder, tmp_path, monkeypatch):
    def killed(run, progress):
        raise KeyboardInterrupt

    config = configuration(pocket_folder)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "update_progress", killed)
        with pytest.raises(KeyboardInterrupt):
            play(config, tmp_path, at=(3,), uneasy=(2,), limit=1)
    assert checkpoints.load_progress(tmp_path, 1).rewinds == 0
    assert play(config, tmp_path, at=(3,), uneasy=(2,), limit=1).message.endswith("after 1 rewinds.")
    assert [e.number for e in events(tmp_path, Rewound)] == [1]


@pytest.mark.nightly
def test_rewind_settings_do_not_affect_a_run_without_collapse(pocket_folder, tmp_path):
    play(configuration(pocket_folder), tmp_path / "rewind")
    run_factory.run(configuration(pocket_folder, echo_trap={"action": "none"}), tmp_path / "none", tmp_path / "cache")
    same_weights(tmp_path / "rewind", tmp_path / "none")
    assert seeds_of_attempts(tmp_path / "rewind") == seeds_of_attempts(tmp_path / "none")


def test_factors_apply_at_each_rewind_and_values_once() -> None:
    changes = {
        "rollout.groups": "*0.5",
        "algorithm.group_filter": "std",
        "algorithm.entropy_coef": 0.01,
        "algorithm.dual_clip": "",
    }
    config = RunConfig(algorithm={"dual_clip": 3.0}, echo_trap={"rewind_changes": changes})
    assert config.after_rewinds(0) is config
    third = config.after_rewinds(3)
    assert (third.rollout.groups, third.algorithm.group_filter, third.algorithm.entropy_coef) == (1, "std", 0.01)
    assert third.algorithm.dual_clip is None
    assert rewind.changes_as_text(config, third)["algorithm.dual_clip"] == "off"
    assert len({config.seed, third.seed, config.after_rewinds(2).seed}) == 3
    json.dumps(third.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer.speed": "1"}, "there is no setting 'optimizer.speed'"),
        ({"policy.model": "other"}, "may name settings of rollout, algorithm, rewards, optimizer, not 'policy.model'"),
        ({"iterations": "3"}, "not 'iterations'"),
        ({"optimizer.policy_lr": "fast"}, "optimizer.policy_lr"),
        ({"optimizer.policy_lr": "*fast"}, "is not * and a number"),
        ({"optimizer.policy_lr": "*100"}, "cannot be applied 3×"),
        ({"algorithm.estimator": "*2"}, "cannot be multiplied"),
        ({"algorithm.estimator": "grpo"}, "cannot change between one with a critic and one without"),
        ({"rollout.group_size": "1", "algorithm.group_filter": "std"}, "raise rollout.group_size"),
    ],
)
def test_changes_that_could_not_be_applied_are_refused_before_the_run(changes, words) -> None:
    with pytest.raises(ValueError, match=r"echo_trap\.rewind_changes") as refused:
        RunConfig(echo_trap={"action": "rewind", "rewind_changes": changes})
    assert words in str(refused.value)


def test_the_example_of_the_guide_is_a_valid_configuration() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "echo-trap.md").read_text(encoding="utf-8")
    example = guide.partition("```yaml")[2].partition("```")[0]
    config = RunConfig.model_validate(yaml.safe_load(textwrap.dedent(example)))
    second = config.after_rewinds(2)
    assert second.optimizer.policy_lr == config.optimizer.policy_lr / 4
    assert (second.algorithm.group_filter, second.algorithm.group_filter_keep) == ("std", 0.25)
