"""Explanations of an iteration without an update: each cause has its remedy."""

from __future__ import annotations

import pytest

from tests.trainer.diagnostics.test_compute import played, turn
from trainer.diagnostics.compute import rollout_metrics
from trainer.diagnostics.skipped_updates import skipped_update_notice
from trainer.journal.events import ActionRecord

ILLEGAL = ActionRecord(text="Fly", status="illegal")
EXECUTED = ActionRecord(text="Up", status="executed", name="Up", effective=True)


@pytest.mark.parametrize(
    ("valid", "action", "success", "expected"),
    [
        (True, ILLEGAL, False, "100% of the turns contain no action that the environment accepts"),
        (False, ILLEGAL, False, "100% of the turns do not keep the format"),
        (True, EXECUTED, False, "No trajectory succeeded: choose easier puzzles"),
        (True, EXECUTED, True, "100% of the trajectories succeed, so there is little left to learn"),
    ],
)
def test_each_cause_has_its_advice(valid: bool, action: ActionRecord, success: bool, expected: str) -> None:
    trajectories = [
        played(group, turn().model_copy(update={"format_valid": valid, "actions": [action]}), success=success)
        for group in (0, 0, 1, 1)
    ]
    text = skipped_update_notice(3, "no_signal", trajectories, rollout_metrics(trajectories))
    assert text.startswith("Iteration 3 had no update: all trajectories of each group got the same reward. ")
    assert expected in text
    assert ("sft.warmup_steps" in text) is not success
    assert ("if the environment has a solver" in text) is not success


def test_a_filter_that_kept_no_group_is_named() -> None:
    good, bad = turn().model_copy(update={"actions": [EXECUTED]}), turn().model_copy(update={"actions": [EXECUTED]})
    trajectories = [played(0, good, success=True), played(0, bad)]
    text = skipped_update_notice(1, "filter", trajectories, rollout_metrics(trajectories))
    assert "the filter kept no group" in text
    assert "rollout.temperature" in text
