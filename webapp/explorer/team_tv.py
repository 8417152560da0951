"""The most telling attempt of several runs, for the screen on the wall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webapp.explorer.highlights import Highlight, of_iteration
from webapp.runs.models import Run

ORDER = ("first_success", "lost_again", "only_success", "surprise")
"""Kinds of highlights, the most telling first."""


@dataclass(frozen=True)
class TvMoment:
    """A highlight of a run."""

    run: Run
    highlight: Highlight


def most_telling(moments: Iterable[TvMoment], shown: Sequence[str]) -> TvMoment | None:
    """Return the most telling moment that has not been shown, or else the one that was shown first.

    Args:
        shown: slugs of the attempts that the screen has shown, the latest one last.
    """

    def rank(moment: TvMoment) -> tuple[int, int]:
        slug = moment.highlight.attempt.slug
        return (shown.index(slug) if slug in shown else -1, ORDER.index(moment.highlight.kind))

    return min(moments, key=rank, default=None)


def newest_moments(runs: Iterable[Run]) -> list[TvMoment]:
    """Return the highlights of the newest finished iteration of each run, and of its evaluation."""
    return [TvMoment(run, highlight) for run in runs for highlight in of_iteration(run, run.iteration)]
