"""The timeline of a run: its events, and the stages of updates as spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from trainer.journal.events import IterationTimeline, TimelineSpan
from trainer.learner.update_meter import UpdateReport
from trainer.loops.session import RunSession
from trainer.metrics.timeline import LEARNER


def write_timeline(session: RunSession, part: Literal["start", "iteration"] = "iteration") -> None:
    """End a lap of the session's timeline after an iteration, or before the first one, and write its event."""
    lap = session.timeline.finish()
    tracks = {
        track: [
            TimelineSpan(
                start=round(span.start, 4),
                seconds=round(span.seconds, 4),
                work={kind: round(seconds, 4) for kind, seconds in span.work.items()},
            )
            for span in spans
        ]
        for track, spans in lap.tracks.items()
    }
    session.journal.write(
        IterationTimeline(
            iteration=session.progress.iteration,
            part=part,
            began=round(lap.began, 3),
            seconds=round(lap.seconds, 4),
            tracks=tracks,
        )
    )


@contextmanager
def update_stages(
    session: RunSession, report: Callable[[UpdateReport], None]
) -> Iterator[Callable[[UpdateReport], None]]:
    """Record the stages of the update inside the block as spans of the learner. Yields the wrapped progress report."""
    timeline, stage, number = session.timeline, "", 0

    def watch(progress: UpdateReport) -> None:
        nonlocal stage, number
        if progress.stage != stage:
            timeline.close(number)
            stage, number = progress.stage, timeline.open(LEARNER, progress.stage)
        report(progress)

    try:
        yield watch
    finally:
        timeline.close(number)
