"""The most common fault in answers with an invalid format, as text for an alarm."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, THINK_END
from trainer.rollout.trajectory import Trajectory

_TAG = re.compile(r"</?[A-Za-z][\w-]{0,30}>")
_EXPECTED = {THINK, THINK_END, ANSWER, ANSWER_END}
_MOST = 0.5  # a reported fault must explain at least this share of the broken turns


def common_fault(trajectories: Iterable[Trajectory]) -> str:
    """Return the fault that most turns without a valid format share; empty if there is none.

    Checked in this order: a misplaced tag, such as `</thinking>`; truncated responses; a common problem.
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
