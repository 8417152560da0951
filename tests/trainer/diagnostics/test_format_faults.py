"""The common fault of turns without a valid format."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.trainer import tiny
from trainer.diagnostics.format_faults import common_fault
from trainer.rollout.trajectory import Trajectory

WRONG_TAG = "I take Phoenix.</thinking> <answer>Phoenix</answer>"


def played(chat, responses: Sequence[str], *, ended: bool = True) -> list[Trajectory]:
    """Real episodes of one turn with these responses."""
    trajectories = []
    for response in responses:
        episode = tiny.episode(chat)
        episode.prompt()
        episode.receive(tiny.sampled(chat, response, ended=ended))
        trajectories.append(episode.trajectory)
    return trajectories


@pytest.mark.parametrize(
    ("responses", "ended", "fault"),
    [
        ([WRONG_TAG, WRONG_TAG, "no answer"], True, "the policy writes </thinking>"),
        (["and so on"] * 2, False, "its responses are cut at rollout.max_response_tokens"),
        (["so</think> Left", "so</think> Up", WRONG_TAG], True, "there is no <answer>"),
        ([tiny.answer("Left")], True, ""),
    ],
)
def test_the_fault_of_most_broken_turns_is_named(chat, responses, ended, fault):
    assert common_fault(played(chat, responses, ended=ended)) == fault
