"""Sessions of a rollout: groups that an engine samples together, and the merge of their trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainer.rollout.runner import GroupPlan, RolloutRequest
from trainer.rollout.trajectory import Trajectory


def split_sessions(request: RolloutRequest, groups: int) -> list[RolloutRequest]:
    """Split the request into parts of this many groups, in order; 0: the whole request."""
    plans = list(request.plans)
    size = groups or len(plans) or 1
    return [replace(request, plans=plans[start : start + size]) for start in range(0, len(plans), size)]


def split_evenly(request: RolloutRequest, parts: int) -> list[RolloutRequest]:
    """Split the request into at most this many nonempty parts of nearly equal size; each takes every n-th group."""
    plans = list(request.plans)
    return [replace(request, plans=plans[part::parts]) for part in range(min(parts, len(plans)))]


def join(plans: Sequence[GroupPlan], parts: Iterable[Iterable[Trajectory]]) -> list[Trajectory]:
    """Merge the trajectories of all parts in the order of the plans."""
    position = {name: number for number, name in enumerate(name for plan in plans for name in plan.members)}
    return sorted((trajectory for part in parts for trajectory in part), key=lambda trajectory: position[trajectory.id])
