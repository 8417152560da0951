"""Related trajectories: members of the same group, and the same prompt at other iterations of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from statistics import fmean

from django.db.models.fields.json import KT
from django.db.models.functions import MD5

from webapp.core import formatting
from webapp.explorer.counts import WITH_REWARD
from webapp.explorer.rows import OutcomeLabel, outcome
from webapp.trajectories.models import Trajectory, Turn
from webapp.trajectories.token_computation import sampled_after

MAX_RELATED = 600
"""Maximum number of trajectories of the same prompt; the newest are kept."""
MAX_BAR, MIN_BAR = 20.0, 2.0
"""Heights of the bars of mean reward."""


@dataclass(frozen=True)
class RelatedTrajectory:
    """A trajectory with its outcome; `here` marks the current one."""

    trajectory: Trajectory
    outcome: OutcomeLabel
    here: bool


@dataclass(frozen=True)
class Iteration:
    """Trajectories of the same prompt at one iteration."""

    iteration: int
    members: Sequence[RelatedTrajectory]
    solved: int
    ended: int
    mean: float | None
    here: bool
    height: float = 0.0
    """Height of its bar, 0 to 20: mean reward, scaled between the lowest and the highest of all iterations."""

    @property
    def first(self) -> RelatedTrajectory:
        return self.members[0]

    @property
    def top(self) -> float:
        return MAX_BAR - self.height

    @property
    def label(self) -> str:
        """Accessible name of its link."""
        single = len(self.members) == 1
        result = self.first.outcome.word if single else f"{self.solved} of {self.ended} solved"
        reward = "" if self.mean is None else f", reward {formatting.signed(self.mean)}"
        return f"Iteration {self.iteration}: {result}{reward}"


@dataclass(frozen=True)
class RelatedMember:
    """A member of the group; `differs` is the first turn (0-based) with a different response, or None."""

    played: RelatedTrajectory
    differs: int | None


def same_prompt(trajectory: Trajectory) -> list[Iteration]:
    """Return the iterations of the run with trajectories of the same prompt, in order, including this one.

    The same prompt means the same environment and seed and, for evaluations, the same suite.
    """
    group = trajectory.group
    same = (
        Trajectory.objects.filter(
            run=trajectory.run_id,
            group__run=trajectory.run_id,
            group__seed=group.seed,
            group__environment=group.environment,
            group__suite=group.suite,
            group__split=group.split,
            superseded=trajectory.superseded,
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
            "rewarded",
            "turn_count",
            "action_count",
            "group_id",
            "run_id",
            "last_seq",
        )
    )[:MAX_RELATED]
    newest_first = [
        _iteration(number, list(members), trajectory) for number, members in groupby(same, attrgetter("iteration"))
    ]
    means = [round(iteration.mean, 1) for iteration in newest_first if iteration.mean is not None]  # as pages show them
    low, high = min(means, default=0.0), max(means, default=0.0)
    step = (MAX_BAR - MIN_BAR) / (high - low or 1.0)
    return [
        iteration
        if iteration.mean is None
        else replace(iteration, height=MIN_BAR + step * (round(iteration.mean, 1) - low))
        for iteration in reversed(newest_first)
    ]


def by_checkpoint(trajectory: Trajectory) -> list[Iteration]:
    """Return what checkpoints of the run made of the attempt's initial state: the attempt, and branches of its start.

    Iterations count what the weights had finished. Only branches without a change and with the recorded luck count.
    """
    branches = Trajectory.with_branches.filter(
        group__question__trajectory=trajectory,
        group__question__turn=0,
        group__question__change={},
        group__question__luck="recorded",
        group__question__weights_run=None,
        status__in=Trajectory.ENDED,
    ).order_by("pk")
    checkpoints = dict(branches.values_list("pk", "group__question__used_checkpoint"))
    own = sampled_after(trajectory)
    played = {own: [trajectory]}
    for branch in branches.filter(pk__in=checkpoints)[:MAX_RELATED]:
        if (checkpoint := checkpoints[branch.pk]) is not None:
            played.setdefault(checkpoint, []).append(branch)
    return [
        replace(_iteration(number, members, trajectory), here=number == own)
        for number, members in sorted(played.items())
    ]


def _iteration(number: int, members: Sequence[Trajectory], current: Trajectory) -> Iteration:
    ended = [member for member in members if member.status in Trajectory.COUNTED]
    rewards = [member.total_reward for member in members if member.rewarded and member.status in WITH_REWARD]
    return Iteration(
        iteration=number,
        members=[_related(member, current) for member in members],
        solved=sum(member.status == Trajectory.Status.SUCCESS for member in ended),
        ended=len(ended),
        mean=fmean(rewards) if rewards else None,
        here=number == current.iteration,
    )


def _related(member: Trajectory, current: Trajectory) -> RelatedTrajectory:
    return RelatedTrajectory(member, outcome(member), member.pk == current.pk)


def same_group(trajectory: Trajectory) -> list[RelatedMember]:
    """Return all members of the group in order, with the first turn at which each diverges from this one."""
    members = list(trajectory.group.trajectories.order_by("member"))
    responses: dict[int, list[str]] = {}
    turns = Turn.objects.filter(trajectory__group=trajectory.group_id).order_by("trajectory", "number")
    for pk, digest in turns.values_list("trajectory_id", MD5(KT("event__response"))):
        responses.setdefault(pk, []).append(digest)
    current_responses = responses.get(trajectory.pk, [])
    return [
        RelatedMember(_related(member, trajectory), _first_difference(current_responses, responses.get(member.pk, [])))
        for member in members
    ]


def _first_difference(left: Sequence[str], right: Sequence[str]) -> int | None:
    for number, (left_digest, right_digest) in enumerate(zip(left, right, strict=False)):
        if left_digest != right_digest:
            return number
    return min(len(left), len(right)) if len(left) != len(right) else None
