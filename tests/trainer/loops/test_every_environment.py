"""Every registered environment can be trained in: one iteration from the first prompt to the checkpoint."""

import pytest

from tests.envs.playable_names import PLAYABLE
from tests.tiers import nightly_but
from tests.trainer import tiny
from trainer.journal import reader
from trainer.journal.events import Evaluation, Metrics, RunFinished, TrajectoryFinished, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.loops.stages import checkpoints

EVERY_COMMIT = {"FrozenLake", "Countdown", "ToolCalculator", "Gymnasium"}
"""Named actions, free text, tools, and an adapter; tests/envs plays each environment for every commit."""


@pytest.mark.parametrize("name", nightly_but(PLAYABLE, EVERY_COMMIT))
def test_a_policy_plays_and_learns_for_one_iteration(name, pocket_folder, tmp_path):
    config = tiny.config(
        pocket_folder,
        iterations=1,
        environment={"name": name},
        rollout={"groups": 1, "group_size": 2},
        evaluation={"prompts": 1},
    )
    end = run_factory.run(config, tmp_path, tmp_path / "cache")
    assert end.reason == "completed"
    recorded = list(reader.read(tmp_path / JOURNAL_FILE))
    assert {Turn, TrajectoryFinished, Metrics, Evaluation, RunFinished} <= {type(event) for event in recorded}
    played = [event for event in recorded if isinstance(event, TrajectoryFinished)]
    assert len(played) == 1 + 2 + 1
    assert [event.error for event in played] == [None] * len(played)
    assert checkpoints.checkpoint_iterations(tmp_path) == [1]
