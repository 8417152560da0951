"""Lines of a journal that tell about some of its attempts, found without parsing: a journal may have gigabytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

_OF_ALL = tuple(
    f'"type":"{kind}"'.encode() for kind in ("run_started", "groups_scored", "update_skipped", "attempts_used")
)


def lines_about(trajectory: str) -> Callable[[bytes], bool]:
    """Return a function that is true for lines about an attempt: of the attempt itself, and of all attempts."""
    marks = (json.dumps(trajectory, ensure_ascii=False).encode(), *_OF_ALL)
    return lambda line: any(mark in line for mark in marks)


_STARTED = b'"type":"run_started"'
_GROUP, _TURN, _TRAJECTORY = b'"type":"group_started"', b'"type":"turn"', re.compile(rb'"trajectory":"([^"\\]*)"')


def lines_beside(trajectory: str, iteration: int, split: str, attempts: int) -> Callable[[bytes], bool]:
    """Return a function that is also true for turns of other attempts of the same iteration and split.

    It expects the lines of a journal in their order.

    Args:
        attempts: maximum number of other attempts.
    """
    is_about, others = lines_about(trajectory), set[bytes]()

    def is_wanted(line: bytes) -> bool:
        if _GROUP in line and len(others) < attempts:
            group = json.loads(line)
            if group.get("iteration") == iteration and group.get("split") == split:
                others.update(member.encode() for member in group.get("members", ()))
                return True
        named = _TRAJECTORY.search(line) if _TURN in line else None
        return is_about(line) or (named is not None and named[1] in others)

    return is_wanted


def lines_of_evaluation(iteration: int, suite: str) -> Callable[[bytes], bool]:
    """Return a function that is true for the settings of a run, and for the attempts of an evaluation.

    It expects the lines of a journal in their order.
    """
    members = set[bytes]()

    def is_wanted(line: bytes) -> bool:
        if _GROUP in line:
            group = json.loads(line)
            wanted = (group.get("split"), group.get("iteration"), group.get("suite")) == ("eval", iteration, suite)
            members.update(json.dumps(name)[1:-1].encode() for name in (group.get("members", ()) if wanted else ()))
            return wanted
        named = _TRAJECTORY.search(line)
        return _STARTED in line or (named is not None and named[1] in members)

    return is_wanted
