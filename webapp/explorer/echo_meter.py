"""Echo meter: number of attempts of each iteration that began with the same thought, through a run's training.

A healthy policy thinks differently about different puzzles. In an Echo Trap most attempts repeat one sentence. Thoughts
are compared as templates: in lower case, with every number as “#”.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db import connection

from trainer.metrics.charts import Band, stream
from webapp.core import formatting
from webapp.core.spacing import evenly
from webapp.trajectories.models import Group

MAX_ITERATIONS = 120
"""Maximum number of counted iterations, evenly spaced and including the newest, which limits the turns to read."""
MAX_BANDS = 6
"""Maximum number of templates with a band: those that were ever the most frequent."""
PER_ITERATION = 12
"""Number of the most frequent templates to read for each iteration."""
MAX_LENGTH = 400
"""Number of compared characters of a thought."""
SHOWN_LENGTH = 90


@dataclass(frozen=True)
class IterationThoughts:
    """First thoughts of an iteration's attempts.

    Attributes:
        attempts: number of attempts with a thought.
        counts: template → number of attempts, for the most frequent templates, commonest first.
        varied: number of equally frequent thoughts with the same variety, 1 / Σ share² (inverse Simpson index).
    """

    iteration: int
    attempts: int
    counts: Mapping[str, int]
    varied: float

    @property
    def commonest(self) -> tuple[str, int]:
        """The most frequent template, and its attempts."""
        return next(iter(self.counts.items()))

    @property
    def sentence(self) -> str:
        """E.g. “127 of 128 attempts of iteration 240 thought”, to be followed by the template."""
        _, count = self.commonest
        return f"{count:,} of {formatting.plural(self.attempts, 'attempt')} of iteration {self.iteration:,} thought"


@dataclass(frozen=True)
class EchoMeter:
    """The counted iterations of a run, oldest first; never empty."""

    iterations: Sequence[IterationThoughts]

    @property
    def first(self) -> IterationThoughts:
        return self.iterations[0]

    @property
    def newest(self) -> IterationThoughts:
        return self.iterations[-1]

    @property
    def thought(self) -> str:
        """The commonest thought of the newest iteration, shortened."""
        return formatting.beginning(self.newest.commonest[0], SHOWN_LENGTH)

    @property
    def variety(self) -> str:
        """Absolute variety at the end, compared with the beginning."""
        now, then = (f"{iteration.varied:,.0f}" for iteration in (self.newest, self.first))
        end = "" if self.newest is self.first else f" ({then} in iteration {self.first.iteration:,})"
        return f"As varied as {formatting.plural(int(now.replace(',', '')), 'equally common thought')}{end}."

    @cached_property
    def templates(self) -> list[str]:
        """Templates with a band, the largest peaks first, so that the echo is at the bottom."""
        peaks: Counter[str] = Counter()
        for iteration in self.iterations:
            for template, count in iteration.counts.items():
                peaks[template] = max(peaks[template], round(1e6 * count / iteration.attempts))
        return [template for template, peak in peaks.most_common(MAX_BANDS) if peak > 1e6 / self.newest.attempts]

    @property
    def bands(self) -> list[Band]:
        """Share of the attempts by iteration for each template; the remainder are other thoughts."""
        return [
            Band(
                formatting.beginning(template, SHOWN_LENGTH),
                [iteration.counts.get(template, 0) / iteration.attempts for iteration in self.iterations],
            )
            for template in self.templates
        ]

    @property
    def picture(self) -> str:
        """Contents of the page's <svg>."""
        return stream(self.bands)

    @property
    def description(self) -> str:
        """Text alternative to the picture."""
        (_, first), (_, last) = self.first.commonest, self.newest.commonest
        first_share, last_share = first / self.first.attempts, last / self.newest.attempts
        return (
            f"Share of attempts with the commonest first thought: {formatting.percent(first_share)} in iteration "
            f"{self.first.iteration:,}, {formatting.percent(last_share)} in iteration {self.newest.iteration:,}."
        )


def echo_meter(run_id: int) -> EchoMeter | None:
    """Return the meter of a run; None if no attempt of its training has a thought. Two queries."""
    groups = Group.objects.filter(run=run_id, split="train", superseded=False)
    numbers = list(groups.order_by("iteration").values_list("iteration", flat=True).distinct())
    if not numbers:
        return None
    counted = list(_counted(run_id, evenly(numbers, MAX_ITERATIONS)))
    return EchoMeter(counted) if counted else None


def _counted(run_id: int, iterations: Sequence[int]) -> Iterator[IterationThoughts]:
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, [MAX_LENGTH, run_id, list(iterations), PER_ITERATION])
        rows = cursor.fetchall()
    for iteration in dict.fromkeys(row[0] for row in rows):
        iteration_rows = [row for row in rows if row[0] == iteration]
        counts = {template: count for _, template, count, _, _ in iteration_rows}
        yield IterationThoughts(iteration, int(iteration_rows[0][3]), counts, float(iteration_rows[0][4]))


_COUNTS = r"""
WITH thoughts AS (
    SELECT g.iteration, btrim(regexp_replace(regexp_replace(
        lower(left(u.event->>'thought', %s)), '[0-9]+', '#', 'g'), '\s+', ' ', 'g')) AS template
    FROM trajectories_group g
    JOIN trajectories_trajectory t ON t.group_id = g.id AND NOT t.superseded
    JOIN trajectories_turn u ON u.trajectory_id = t.id AND u.number = 0
    WHERE g.run_id = %s AND g.split = 'train' AND NOT g.superseded AND g.iteration = ANY(%s)
), counted AS (
    SELECT iteration, template, count(*) AS attempts FROM thoughts WHERE template <> '' GROUP BY iteration, template
), ranked AS (
    SELECT iteration, template, attempts,
        sum(attempts) OVER own AS total,
        power(sum(attempts) OVER own, 2) / sum(attempts * attempts) OVER own AS varied,
        row_number() OVER (PARTITION BY iteration ORDER BY attempts DESC, template) AS place
    FROM counted WINDOW own AS (PARTITION BY iteration)
)
SELECT iteration, template, attempts, total, varied FROM ranked WHERE place <= %s ORDER BY iteration, place
"""
"""Templates of first thoughts with their attempts, by iteration."""
