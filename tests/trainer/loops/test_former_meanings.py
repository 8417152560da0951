"""Runs that began before the meaning of a setting changed continue as they began."""

from __future__ import annotations

import json

import pytest

from tests.trainer import tiny
from tests.trainer.loops.test_resume import StopCounter, play, same_files
from tests.trainer.loops.test_skipped_updates import events
from trainer.config.run import MEANINGS, RunConfig
from trainer.journal.events import Notice, RunStarted
from trainer.loops.stages import checkpoints


def config_of(model, estimator) -> RunConfig:
    return tiny.config(
        model, algorithm={"estimator": estimator, "drop_zero_std": False}, evaluation={"prompts": 0}, iterations=2
    )


def as_an_earlier_version_wrote_it(folder) -> None:
    """Rewrite the newest checkpoint's progress without the fields of this version."""
    newest = checkpoints.checkpoint_iterations(folder)[-1]
    file = checkpoints.path_of(folder, newest) / checkpoints.CHECKPOINT_STATE
    state = json.loads(file.read_text())
    assert state["meanings"] == MEANINGS
    for name in ("meanings", "skipped_updates", "marginal_stds"):
        del state[name]
    file.write_text(json.dumps(state))


def test_an_earlier_run_of_reinforce_plus_plus_continues_with_returns_per_turn(pocket_folder, tmp_path) -> None:
    counter, begun = StopCounter(), config_of(pocket_folder, "reinforce_plus_plus_verl")
    assert play(begun, tmp_path / "whole", counter).reason == "completed"
    assert play(begun, tmp_path / "parts", StopCounter(0.8 * counter.count)).reason == "interrupted"
    as_an_earlier_version_wrote_it(tmp_path / "parts")
    assert play(config_of(pocket_folder, "reinforce_plus_plus"), tmp_path / "parts").reason == "completed"
    notices = [event.message for event in events(tmp_path / "parts", Notice)]
    assert any("when reinforce_plus_plus was what reinforce_plus_plus_verl is now" in message for message in notices)
    assert events(tmp_path / "parts", RunStarted)[-1].config["algorithm"]["estimator"] == "reinforce_plus_plus_verl"
    newest = checkpoints.load_progress(tmp_path / "parts", 2)
    assert newest.meanings == 0, "so that it continues like this again"
    newest.meanings = MEANINGS
    newest.marginal_stds = checkpoints.load_progress(tmp_path / "whole", 2).marginal_stds
    checkpoints.update_progress(tmp_path / "parts", newest)
    same_files(tmp_path / "parts", tmp_path / "whole", same_settings=False)


def test_a_run_of_this_version_keeps_its_estimator(pocket_folder, tmp_path) -> None:
    counter, config = StopCounter(), config_of(pocket_folder, "reinforce_plus_plus")
    play(config, tmp_path / "whole", counter)
    play(config, tmp_path / "parts", StopCounter(0.8 * counter.count))
    play(config, tmp_path / "parts")
    assert not events(tmp_path / "parts", Notice)
    same_files(tmp_path / "parts", tmp_path / "whole")
    play(config_of(pocket_folder, "reinforce_plus_plus_verl"), tmp_path / "verl")
    with pytest.raises(AssertionError):
        same_files(tmp_path / "verl", tmp_path / "whole", same_settings=False)


def test_only_the_changed_value_is_replaced() -> None:
    config = RunConfig.model_validate({"algorithm": {"estimator": "rloo"}})
    assert config.with_meanings(0) is config
    imitation = RunConfig.model_validate({"kind": "sft"})
    assert list(imitation.differences(imitation.with_meanings(1))) == [("sft.thoughts", "auto", "general")]
    assert imitation.with_meanings(MEANINGS) is imitation
    changed = RunConfig.model_validate({"algorithm": {"estimator": "reinforce_plus_plus", "gamma": 0.9}})
    assert changed.with_meanings(0).algorithm.gamma == 0.9
    assert changed.with_meanings(MEANINGS) is changed
