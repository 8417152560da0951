"""Serializers of the tokens of a trajectory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from webapp.api.schemas.token_schemas import TokenSegment, TokenState, TrajectoryTokensOut
from webapp.branching.models import BranchQuestion
from webapp.trajectories.computed_text import describe_computed
from webapp.trajectories.models import BRANCH, TokenComputation, Trajectory
from webapp.trajectories.reading import Reading, get_reading
from webapp.trajectories.token_computation import sampled_after, status_text


def token_state(trajectory: Trajectory) -> TokenState:
    """Return whether a trajectory has tokens, or a worker computes them."""
    return _state(trajectory, get_reading(trajectory))


def tokens_out(trajectory: Trajectory) -> TrajectoryTokensOut:
    """Return a trajectory's tokens."""
    reading = get_reading(trajectory)
    state = _state(trajectory, reading).model_dump()
    if isinstance(reading, str):
        return TrajectoryTokensOut(
            **state,
            segments=[],
            texts=[],
            ids=[],
            logprobs=None,
            entropies=None,
            differences=None,
            ratios=None,
            advantages=None,
            clipped=None,
            retokenised=None,
        )
    return TrajectoryTokensOut(
        **state,
        segments=[
            TokenSegment(start=start, **vars(segment))
            for segment, start in zip(reading.segments, reading.starts(), strict=True)
        ],
        texts=reading.texts,
        ids=reading.ids.tolist(),
        logprobs=_numbers(reading.logprobs),
        entropies=_numbers(reading.entropies),
        differences=_numbers(reading.differences),
        ratios=_numbers(reading.ratios),
        advantages=_numbers(reading.advantages),
        clipped=None if np.isnan(reading.ratios).all() else np.flatnonzero(reading.clipped).tolist(),
        retokenised=None if reading.computed else np.flatnonzero(reading.retokenised).tolist(),
    )


def _sampled_after(trajectory: Trajectory) -> int:
    """Return the finished iterations of the weights that sampled it; of a branch, as its question says."""
    if trajectory.split == BRANCH:
        questions = BranchQuestion.objects.filter(group=trajectory.group_id)
        chosen = questions.values_list("used_checkpoint", flat=True).first()
        if chosen is not None:
            return chosen
    return sampled_after(trajectory)


def _state(trajectory: Trajectory, reading: Reading | str) -> TokenState:
    after = _sampled_after(trajectory)
    if isinstance(reading, str):
        computations = TokenComputation.objects.select_related("worker", "trajectory__run")
        found = computations.filter(trajectory=trajectory).first()
        return TokenState.model_validate(
            {
                "state": found.state if found else "missing",
                "message": status_text(found) if found else reading,
                "computed_from": None,
                "sampled_after": after,
            }
        )
    if reading.computed is None:
        return TokenState(state="recorded", message=" ".join(reading.notes), computed_from=None, sampled_after=after)
    return TokenState(
        state="computed",
        message=" ".join(describe_computed(trajectory, reading.computed)),
        computed_from=reading.computed.checkpoint,
        sampled_after=after,
    )


def _numbers(values: NDArray[np.float64]) -> list[float | None] | None:
    """Return four significant digits, the precision of half floats; None instead of all if every value is unknown."""
    if np.isnan(values).all():
        return None
    return [None if value != value else float(f"{value:.4g}") for value in values.tolist()]
