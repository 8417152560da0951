"""Stores marks of mistakes in ended attempts and comments on them, for lists, filters, search and exports.

Judging an attempt takes milliseconds, and much longer on slippery ice, so the ingest leaves it to a job of the clock.
The job judges the newest attempts first, a few seconds at a time, and locks no rows meanwhile. Attempts that were
played before marks were stored wait in the same queue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from webapp.core.formatting import sentence
from webapp.runs.models import Run
from webapp.trajectories.mistakes.budgets import Limits, get_limits
from webapp.trajectories.mistakes.commentary import commentary
from webapp.trajectories.mistakes.judge import Mark, find_marks, is_judged, verdict
from webapp.trajectories.mistakes.steps import judge_actions
from webapp.trajectories.mistakes.values import GLYPHS
from webapp.trajectories.models import Trajectory, Turn
from webapp.trajectories.serialize import trajectory_data
from webapp.trajectories.sharing.public import outcome_text

logger = logging.getLogger(__name__)

ROUND_SECONDS = 2.0
"""Duration of a round of the clock, which has other jobs: at most 40% of a core with the pause between rounds."""
CHUNK = 50
"""Attempts per query. Their turns are read one attempt after the other."""
MAX_BETTER = 8
"""Maximum number of best actions that are stored for a mark."""
WORST = {kind: Trajectory.WorstMark[kind.upper()] for kind in GLYPHS}


@dataclass(frozen=True)
class Judged:
    """Stored result for an attempt: its worst mark, the turn of its first mistake, a comment, and each turn's marks."""

    worst: int
    first_mistake_turn: int | None
    commentary: str
    by_turn: dict[int, list[dict[str, Any]]]


def do_judge_waiting() -> int:
    """Judge attempts for ROUND_SECONDS; a round of the clock's job. Returns the number of attempts."""
    return do_judge_attempts(waiting(), seconds=ROUND_SECONDS)


def waiting(runs: Iterable[Run] | None = None) -> QuerySet[Trajectory]:
    """Return ended attempts that have not been judged, of these runs or of all."""
    attempts = Trajectory.with_branches.filter(worst_mark__isnull=True, finished_seq__isnull=False)
    return attempts if runs is None else attempts.filter(run__in=runs)


def do_judge_attempts(attempts: QuerySet[Trajectory], seconds: float | None = None) -> int:
    """Judge attempts, newest first, for up to `seconds`. Returns their number.

    Safe to repeat and to run concurrently: the result depends only on the recorded attempts.
    """
    end = None if seconds is None else time.monotonic() + seconds
    limits: dict[tuple[int, str, str], Limits | None] = {}
    count = 0
    last_key: int | None = None
    while True:
        chunk = attempts if last_key is None else attempts.filter(pk__lt=last_key)
        read = list(chunk.select_related("group", "run").order_by("-pk")[:CHUNK])
        for attempt in read:
            puzzle_set = (attempt.run_id, attempt.group.environment, attempt.group.suite)
            if puzzle_set not in limits:
                limits[puzzle_set] = get_limits(attempt)
            _store(attempt, _judge(attempt, limits[puzzle_set]))
            count += 1
            if end is not None and time.monotonic() >= end:
                return count
        if len(read) < CHUNK:
            return count
        last_key = read[-1].pk


def forget(run: Run) -> None:
    """Queue the attempts of a run to be judged again, for example after a solver was corrected."""
    with transaction.atomic():
        Turn.objects.filter(trajectory__run=run, marks__isnull=False).update(marks=None)
        run.trajectories.update(worst_mark=None, first_mistake_turn=None, commentary="")


def _judge(attempt: Trajectory, limits: Limits | None) -> Judged:
    """Return the marks of an attempt; no marks if it cannot be judged, as foreign journals may contain anything."""
    outcome = outcome_text(attempt)
    try:
        played = trajectory_data(attempt)
        steps = list(judge_actions(played, attempt.group.environment, limits))
        marks = find_marks(steps)
        found = verdict(played, steps, marks, limits)
        comment = commentary(played | {"verdict": asdict(found) if found else None}, outcome)
        if not is_judged(steps, played):
            return Judged(Trajectory.WorstMark.UNKNOWN, None, comment, {})
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError):
        logger.warning("Trajectory %s cannot be judged.", attempt.slug, exc_info=True)
        return Judged(Trajectory.WorstMark.UNKNOWN, None, sentence(outcome), {})
    by_turn: dict[int, list[dict[str, Any]]] = {}
    for mark in marks:
        by_turn.setdefault(mark.turn, []).append(_stored(mark))
    worst = max((WORST[mark.kind] for mark in marks), default=Trajectory.WorstMark.NONE)
    mistakes = [mark.turn for mark in marks if WORST[mark.kind] >= Trajectory.WorstMark.MISTAKE]
    return Judged(worst, mistakes[0] if mistakes else None, comment, by_turn)


def _stored(mark: Mark) -> dict[str, Any]:
    return {
        "action": mark.action,
        "kind": mark.kind,
        "played": mark.played,
        "better": mark.better[:MAX_BETTER],
        "value": mark.value,
        "kept": mark.kept,
        "loss": mark.loss,
    }


def _store(attempt: Trajectory, judged: Judged) -> None:
    """Store the marks unless the attempt was read again meanwhile, as by a rebuild; then it is judged again."""
    with transaction.atomic():
        same = Trajectory.with_branches.filter(
            pk=attempt.pk, finished_seq=attempt.finished_seq, worst_mark__isnull=True
        )
        changed = same.update(
            worst_mark=judged.worst, first_mistake_turn=judged.first_mistake_turn, commentary=judged.commentary
        )
        if changed:
            for number, marks in judged.by_turn.items():
                Turn.objects.filter(trajectory=attempt, number=number).update(marks=marks)
