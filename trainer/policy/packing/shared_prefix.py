"""What several new dialogues begin with, found so that it is read once for all of them. Nothing is read here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SharedPrefix:
    """Tokens `start` to `stop`, the same in the prompts of all `members`; what is before them is read already."""

    members: tuple[int, ...]
    start: int
    stop: int


def find_shared_prefixes(prompts: Sequence[Sequence[int]], worth: int) -> list[list[SharedPrefix]]:
    """What to read once, in rounds: a round needs what the rounds before it have read.

    Every prompt keeps at least its last token, which each dialogue reads for itself.

    Args:
        prompts: token ids, none empty; dialogues of a group have equal ones, those of an environment a common start.
        worth: read something once only if that saves at least so many tokens.
    Returns:
        Rounds of beginnings; within a round no prompt stands in two of them.
    """
    rounds: list[list[SharedPrefix]] = []
    todo = [(list(range(len(prompts))), 0, 0)]
    while todo:
        members, start, depth = todo.pop()
        if len(members) < 2:
            continue
        stop = _common(prompts, members, start)
        if stop > start and (stop - start) * (len(members) - 1) >= worth:
            if depth == len(rounds):
                rounds.append([])
            rounds[depth].append(SharedPrefix(tuple(members), start, stop))
            start, depth = stop, depth + 1
        branches: dict[int, list[int]] = {}
        for member in members:
            if len(prompts[member]) > stop + 1:
                branches.setdefault(prompts[member][stop], []).append(member)
        todo += [(branch, start, depth) for branch in branches.values()]
    return rounds


def _common(prompts: Sequence[Sequence[int]], members: Sequence[int], start: int) -> int:
    """How far the members are equal; each keeps its last token. They are known to be equal up to `start`."""
    first, others = prompts[members[0]], members[1:]
    longest = min(len(prompts[member]) for member in members) - 1
    stop = start
    while stop < longest and all(prompts[other][stop] == first[stop] for other in others):
        stop += 1
    return stop
