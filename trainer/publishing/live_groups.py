"""Groups of a journal that no later attempt superseded."""

from __future__ import annotations

from pathlib import Path

from trainer.journal import events, reader

_MARKERS = (b'"type":"run_started"', b'"type":"group_started"')


def is_superseded(start: events.RunStarted, split: str, iteration: int, suite: str | None) -> bool:
    """True if an attempt with this start supersedes what earlier ones played or evaluated in that iteration."""
    if split == "train":
        return iteration > start.from_iteration
    return iteration > start.evaluated_iteration and suite not in start.evaluated_suites


def live_groups(journal: Path) -> set[int]:
    """Return the seq of each `group_started` that counts. Only these lines and starts of attempts are parsed."""
    groups: list[events.GroupStarted] = []
    with journal.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n") or not any(marker in line for marker in _MARKERS):
                continue
            match event := reader.parse_line(line, number):
                case events.RunStarted():
                    groups = [g for g in groups if not is_superseded(event, g.split, g.iteration, g.suite)]
                case events.GroupStarted():
                    groups.append(event.model_copy(update={"board": None, "hint": None, "prompt": ""}))
    return {group.seq for group in groups}
