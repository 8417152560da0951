"""Sessions of a rollout: groups that an engine samples together, and their trajectories joined again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainer.rollout.runner import GroupPlan, RolloutRequest
from trainer.rollout.trajectory import Trajectory


def split_sessions(request: RolloutRequest, groups: int) -> list[RolloutRequest]:
    """The request in parts of this many groups, in order; 0: the whole request."""
    plans = list(request.plans)
    size = groups or len(plans) or 1
    return [replace(request, plans=plans[start : start + size]) for start in range(0, len(plans), size)]


def split_evenly(request: RolloutRequest, parts: int) -> list[RolloutRequest]:
    """The request in at most this many parts of nearly equal size, none empty; each takes every n-th group."""
    plans = list(request.plans)
    return [replace(request, plans=plans[part::parts]) for part in range(min(parts, len(plans)))]


def join(plans: Sequence[GroupPlan], parts: Iterable[Iterable[Trajectory]]) -> list[Trajectory]:
    """Trajectories of all parts in the order of the plans."""
    place = {name: number for number, name in enumerate(name for plan in plans for name in plan.members)}
    return sorted((trajectory for part in parts for trajectory in part), key=lambda trajectory: place[trajectory.id])
