"""What a policy does where it breaks the format of its answers, in words for an alarm."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, THINK_END
from trainer.rollout.trajectory import Trajectory

_TAG = re.compile(r"</?[A-Za-z][\w-]{0,30}>")
_EXPECTED = {THINK, THINK_END, ANSWER, ANSWER_END}
_MOST = 0.5  # share of the broken turns that a fault must explain


def common_fault(trajectories: Iterable[Trajectory]) -> str:
    """What most turns without a valid format have in common; empty if there is no such thing.

    In order: a tag that does not belong there, as in `</thinking>`; responses that are cut; a common problem.
    """
    broken = [turn for trajectory in trajectories for turn in trajectory.turns if turn.format_valid is False]
    needed = _MOST * len(broken)
    if not broken:
        return ""
    tags = Counter(tag for turn in broken for tag in set(_TAG.findall(turn.response)) - _EXPECTED)
    for tag, times in tags.most_common(1):
        if times >= needed:
            return f"the policy writes {tag}"
    if sum(turn.truncated for turn in broken) >= needed:
        return "its responses are cut at rollout.max_response_tokens"
    problems = Counter(turn.problem for turn in broken if turn.problem)
    for problem, times in problems.most_common(1):
        if times >= needed:
            return problem
    return ""
