"""Highlights of an iteration: its most informative attempts, which the live page shows between rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from webapp.core import formatting
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

MAX_HIGHLIGHTS = 5
MIN_GROUP = 3
"""Minimum number of attempts of a group for its only success to be a highlight."""


@dataclass(frozen=True)
class Attempt:
    """An ended attempt, with facts about its puzzle.

    Attributes:
        order: higher for a later attempt.
        expected: mean reward of its group; None without a scored group, as in an evaluation, or without a reward.
        attempts, successes: numbers of its group, including this attempt.
        tried_before, solved_before: attempts at the same puzzle in earlier iterations, and successes among them.
        lost_because: reason why success became impossible, if the solver knows.
        noun: name of an initial state on the run's pages (Run.task_noun).
    """

    id: str
    slug: str
    group: int
    member: int
    iteration: int
    split: str
    order: int
    success: bool
    reward: float
    expected: float | None = None
    attempts: int = 1
    successes: int = 0
    tried_before: int = 0
    solved_before: int = 0
    lost_because: str = ""
    noun: str = "puzzle"

    @property
    def surprise(self) -> float:
        """Difference between the reward and the expected one; 0 without expectation."""
        return 0.0 if self.expected is None else abs(self.reward - self.expected)


@dataclass(frozen=True)
class Highlight:
    """An attempt, and the reason why it was chosen."""

    kind: str
    caption: str
    attempt: Attempt

    def as_data(self) -> dict[str, Any]:
        """Return the data for the page (Highlight in static/js/types.js)."""
        attempt = self.attempt
        return {
            "kind": self.kind,
            "caption": self.caption,
            "id": attempt.id,
            "slug": attempt.slug,
            "group": attempt.group,
            "member": attempt.member,
            "iteration": attempt.iteration,
            "split": attempt.split,
        }


def choose(attempts: Iterable[Attempt], limit: int = MAX_HIGHLIGHTS) -> list[Highlight]:
    """Choose the most informative attempts, each once, with at most two for each puzzle.

    First successes on a puzzle that was tried before, the latest loss of a puzzle that was solved before, the only
    success of a group, and the largest surprises. Within a kind the most informative come first.
    """
    pool = sorted(attempts, key=lambda attempt: (attempt.order, attempt.id))
    chosen: list[Highlight] = []
    for kind, count, fits, rank, caption in _KINDS:
        candidates = sorted((attempt for attempt in pool if fits(attempt)), key=rank, reverse=True)
        number = 0
        for attempt in candidates:
            if number == count or len(chosen) >= limit:
                break
            if _may_follow(attempt, chosen, kind):
                chosen.append(Highlight(kind, caption(attempt, number), attempt))
                number += 1
    return chosen


def _may_follow(attempt: Attempt, chosen: Sequence[Highlight], kind: str) -> bool:
    puzzle = (attempt.split, attempt.group)
    same = [other for other in chosen if (other.attempt.split, other.attempt.group) == puzzle]
    repeated = any(other.attempt.id == attempt.id or other.kind == kind for other in same)
    return not repeated and len(same) < 2


def _first_success(attempt: Attempt, _: int) -> str:
    return f"First success on this {attempt.noun}, after {formatting.plural(attempt.tried_before, 'failed attempt')}"


def _lost_again(attempt: Attempt, _: int) -> str:
    reason = f": {attempt.lost_because}" if attempt.lost_because else ""
    return f"Solved before, lost this time{reason}"


def _only_success(attempt: Attempt, _: int) -> str:
    return f"The only success of {attempt.attempts} attempts at this {attempt.noun}"


def _surprise(attempt: Attempt, number: int) -> str:
    what = "Largest surprise" if number == 0 else "Surprise"
    return (
        f"{what}: reward {formatting.signed(attempt.reward)}, group mean {formatting.signed(attempt.expected or 0.0)}"
    )


_KINDS: tuple[
    tuple[str, int, Callable[[Attempt], bool], Callable[[Attempt], float], Callable[[Attempt, int], str]], ...
] = (
    (
        "first_success",
        2,
        lambda attempt: attempt.success and attempt.tried_before > 0 and attempt.solved_before == 0,
        lambda attempt: attempt.tried_before,
        _first_success,
    ),
    (
        "lost_again",
        1,
        lambda attempt: not attempt.success and attempt.solved_before > 0,
        lambda attempt: attempt.order,
        _lost_again,
    ),
    (
        "only_success",
        1,
        lambda attempt: attempt.success and attempt.successes == 1 and attempt.attempts >= MIN_GROUP,
        lambda attempt: attempt.surprise,
        _only_success,
    ),
    ("surprise", MAX_HIGHLIGHTS, lambda attempt: attempt.surprise > 0, lambda attempt: attempt.surprise, _surprise),
)
"""Kind, maximum number, condition, rank (higher first), caption for the n-th of its kind, from 0."""


def of_iteration(run: Run, iteration: int) -> list[Highlight]:
    """Return highlights of an iteration's rollout, and of the evaluation after it or, if none yet, before it."""
    evaluated = run.trajectories.filter(
        superseded=False, split="eval", iteration__in=(iteration - 1, iteration), finished_seq__isnull=False
    ).aggregate(newest=Max("iteration"))["newest"]
    waves = [("train", iteration)] + ([] if evaluated is None else [("eval", evaluated)])
    return choose(attempt for split, number in waves for attempt in _attempts(run, split, number))


Puzzle = tuple[str, str, int]
"""Environment, suite ("" for training) and seed of an initial state."""


def _attempts(run: Run, split: str, iteration: int) -> list[Attempt]:
    """Return ended attempts of a rollout or evaluation with known success. Two queries."""
    ended = run.trajectories.filter(superseded=False, split=split, finished_seq__isnull=False, error="")
    ended = ended.exclude(end="interrupted").exclude(status=Trajectory.Status.UNKNOWN)
    now = list(ended.filter(iteration=iteration).select_related("group").defer("group__prompt", "group__board"))
    outcomes: dict[Puzzle, list[bool]] = {}
    for trajectory in now:
        outcomes.setdefault(_puzzle(trajectory), []).append(trajectory.status == Trajectory.Status.SUCCESS)
    earlier = _earlier(ended.filter(iteration__lt=iteration), [seed for _, _, seed in outcomes])
    return [
        Attempt(
            id=trajectory.key,
            slug=trajectory.slug,
            group=trajectory.group.number,
            member=trajectory.member,
            iteration=iteration,
            split=split,
            order=trajectory.finished_seq or 0,
            success=trajectory.status == Trajectory.Status.SUCCESS,
            reward=trajectory.total_reward,
            expected=trajectory.group.mean if trajectory.rewarded else None,
            attempts=len(outcomes[puzzle]),
            successes=sum(outcomes[puzzle]),
            tried_before=earlier.get(puzzle, (0, 0))[0],
            solved_before=earlier.get(puzzle, (0, 0))[1],
            lost_because=(trajectory.lost_at or {}).get("reason", ""),
            noun=run.task_noun,
        )
        for trajectory in now
        for puzzle in [_puzzle(trajectory)]
    ]


def _puzzle(trajectory: Trajectory) -> Puzzle:
    group = trajectory.group
    return group.environment, group.suite, group.seed


def _earlier(attempts: QuerySet[Trajectory], seeds: Sequence[int]) -> dict[Puzzle, tuple[int, int]]:
    """Return the numbers of earlier attempts and successes by puzzle."""
    counted = (
        attempts.filter(group__seed__in=seeds)
        .values_list("group__environment", "group__suite", "group__seed")
        .annotate(tried=Count("pk"), solved=Count("pk", filter=Q(status=Trajectory.Status.SUCCESS)))
        .order_by()
    )
    return {(environment, suite, seed): (tried, solved) for environment, suite, seed, tried, solved in counted}
