"""Thoughts of any turn are compared at intervals, at a small cost, and without an effect on training."""

from __future__ import annotations

import torch
from safetensors.torch import load_file

from tests.trainer import tiny
from tests.trainer.loops.test_resume import play
from tests.trainer.loops.test_skipped_updates import events
from trainer.diagnostics import reasoning
from trainer.diagnostics.reasoning import MAX_COMPARED_PROMPTS
from trainer.journal.events import Metrics
from trainer.learner.learner import Learner
from trainer.loops import train
from trainer.loops.stages import checkpoints


def test_thoughts_of_any_turn_are_measured_at_intervals_and_change_nothing(pocket_folder, tmp_path, monkeypatch):
    sizes: list[int] = []
    measure = Learner.cross_scores

    def counted(self, prompts, thoughts, *others):
        sizes.append(len(prompts) * len(thoughts))
        return measure(self, prompts, thoughts, *others)

    monkeypatch.setattr(Learner, "cross_scores", counted)
    sections = {"iterations": 3, "evaluation": {"prompts": 0}, "algorithm": {"estimator": "gae"}}
    config = tiny.config(pocket_folder, **sections)
    monkeypatch.setattr(train, "TURN_THOUGHTS_EVERY", 2)
    monkeypatch.setattr(train, "TURN_THOUGHTS", 4)
    play(config, tmp_path / "on")
    measured = [
        event.iteration
        for event in events(tmp_path / "on", Metrics)
        if "reasoning_turns/mutual_information" in event.values
    ]
    assert measured == [1, 2]
    assert max(sizes) <= 16
    assert len(sizes) == 5, "first turns three times, any turn twice"
    sizes.clear()
    monkeypatch.setattr(reasoning, "turn_thoughts", lambda *others: None)
    play(config, tmp_path / "off")
    assert len(sizes) == 3
    weights = [load_file(checkpoints.get_path(tmp_path / name, 3) / "model.safetensors") for name in ("on", "off")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_later_turns_cost_little_compared_with_first_turns():
    later_turns = train.TURN_THOUGHTS**2 / train.TURN_THOUGHTS_EVERY
    assert later_turns <= 0.02 * MAX_COMPARED_PROMPTS**2, "rows that the policy reads, per iteration"
