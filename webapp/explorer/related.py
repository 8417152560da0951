"""What stands beside a trajectory: the others of its group, and the same prompt at other iterations of the run.

How the thoughts of two differ is told in thoughts.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from django.db.models.fields.json import KT
from django.db.models.functions import MD5

from webapp.core import formatting
from webapp.explorer.rows import OutcomeLabel, outcome
from webapp.trajectories.models import Trajectory, Turn

MAX_RELATED = 600
"""Trajectories from the same prompt that are shown; the newest of them."""
BAR, LEAST_BAR = 20.0, 2.0


@dataclass(frozen=True)
class Played:
    """A trajectory beside the one that is looked at."""

    trajectory: Trajectory
    outcome: OutcomeLabel
    here: bool


@dataclass(frozen=True)
class Iteration:
    """What became of the same prompt at one iteration."""

    iteration: int
    members: Sequence[Played]
    solved: int
    ended: int
    mean: float | None
    here: bool
    height: float = 0.0
    """Of its bar, 0 to 20: the mean reward between the lowest and the highest of all."""

    @property
    def first(self) -> Played:
        return self.members[0]

    @property
    def top(self) -> float:
        return BAR - self.height

    @property
    def label(self) -> str:
        """Accessible name of its link."""
        single = len(self.members) == 1
        result = self.first.outcome.word if single else f"{self.solved} of {self.ended} solved"
        reward = "" if self.mean is None else f", reward {formatting.signed(self.mean)}"
        return f"Iteration {self.iteration}: {result}{reward}"


@dataclass(frozen=True)
class RelatedMember:
    """A member of the group; `differs` is the first turn, 0-based, that it answered otherwise, or None."""

    played: Played
    differs: int | None


def same_prompt(found: Trajectory) -> list[Iteration]:
    """The iterations of the run that began at the same initial state, in order, this one included.

    The same suite for an examination; for training, the same seed of the same environment.
    """
    group = found.group
    again = (
        Trajectory.objects.filter(
            run=found.run_id,
            group__run=found.run_id,
            group__seed=group.seed,
            group__environment=group.environment,
            group__suite=group.suite,
            group__split=group.split,
            superseded=found.superseded,
        )
        .order_by("-iteration", "group__number", "member")
        .only(
            "slug",
            "iteration",
            "member",
            "status",
            "end",
            "error",
            "lost_at",
            "total_reward",
            "turn_count",
            "action_count",
            "group_id",
            "run_id",
        )
    )[:MAX_RELATED]
    newest_first = [_iteration(number, list(members), found) for number, members in groupby(again, _iteration_of)]
    means = [each.mean for each in newest_first if each.mean is not None]
    low, high = min(means, default=0.0), max(means, default=0.0)
    return [
        replace(each, height=LEAST_BAR + (BAR - LEAST_BAR) * (each.mean - low) / (high - low or 1.0))
        if each.mean is not None
        else each
        for each in reversed(newest_first)
    ]


def _iteration_of(trajectory: Trajectory) -> int:
    return trajectory.iteration


def _iteration(number: int, members: Sequence[Trajectory], found: Trajectory) -> Iteration:
    ended = [member for member in members if member.status in Trajectory.ENDED]
    return Iteration(
        iteration=number,
        members=[_played(member, found) for member in members],
        solved=sum(member.status == Trajectory.Status.SUCCESS for member in ended),
        ended=len(ended),
        mean=sum(member.total_reward for member in ended) / len(ended) if ended else None,
        here=number == found.iteration,
    )


def _played(member: Trajectory, found: Trajectory) -> Played:
    return Played(member, outcome(member), member.pk == found.pk)


def same_group(found: Trajectory) -> list[RelatedMember]:
    """All members of the group in order, with the first turn at which each parts from this one."""
    members = list(found.group.trajectories.order_by("member"))
    said: dict[int, list[str]] = {}
    turns = Turn.objects.filter(trajectory__group=found.group_id).order_by("trajectory", "number")
    for pk, digest in turns.values_list("trajectory_id", MD5(KT("event__response"))):
        said.setdefault(pk, []).append(digest)
    own = said.get(found.pk, [])
    return [
        RelatedMember(_played(member, found), _first_difference(own, said.get(member.pk, []))) for member in members
    ]


def _first_difference(one: Sequence[str], other: Sequence[str]) -> int | None:
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other)) if len(one) != len(other) else None
