"""The live page during an update, in Node: newest report, groups that pulse, and when the highlight reel may run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webapp.javascript import evaluate


def phase(done: int, share: float, *, time: float = 0.0, iteration: int = 3, name: str = "update") -> dict[str, Any]:
    update = {"stage": "step", "pass_number": 1, "passes": 2, "groups": [done, done + 1]}
    return {
        "phase": name,
        "iteration": iteration,
        "done": done,
        "total": 8,
        "unit": "micro-batches",
        "share": share,
        "update": update if name == "update" else None,
        "time": time,
    }


def page(now: dict[str, Any] | None, *, status: str = "success", state: str = "running") -> dict[str, Any]:
    member = {"id": "a", "slug": "a", "turns": 1, "status": status, "format_error": False}
    wall = {"iteration": 3, "split": "train", "groups": [{"group": 0, "members": [member]}]}
    return {"state": state, "phase": now, "wall": wall}


def newest(event: dict[str, Any] | None, *reports: dict[str, Any], shown: dict[str, Any] | None = None) -> Any:
    """(micro-batches done, groups that pulse) after an event of the journal and reports that bypass it."""
    expression = """(() => {
        const progress = new UpdateProgress();
        if (data.event) progress.noteEvent(data.event);
        for (const report of data.reports) progress.noteReport(report);
        const phase = progress.newest(data.shown);
        return [phase.done, [...progress.learning({ ...data.page, phase })]];
    })()"""
    shown = shown or event
    data = {"event": event, "reports": reports, "shown": shown, "page": page(shown)}
    return evaluate("live/update_progress.js", expression, data)


def test_a_report_after_the_last_event_is_shown_and_an_older_one_is_not() -> None:
    event = phase(2, 0.3, time=10.0)
    assert newest(event, phase(5, 0.6, time=11.0)) == [5, [5, 6]]
    assert newest(event, phase(1, 0.2, time=9.0)) == [2, [2, 3]]


def test_a_report_of_another_update_or_behind_a_snapshot_is_not_shown() -> None:
    assert newest(phase(2, 0.3, time=10.0), phase(7, 0.9, time=11.0, iteration=2)) == [2, [2, 3]]
    snapshot = phase(4, 0.5)
    assert newest(None, phase(3, 0.4, time=11.0), shown=snapshot) == [4, [4, 5]]
    assert newest(None, phase(5, 0.6, time=11.0), shown=snapshot) == [5, [5, 6]]


def test_nothing_pulses_outside_the_update_of_the_shown_rollout() -> None:
    rollout = phase(0, 0.0, time=10.0, name="rollout")
    assert newest(rollout, phase(7, 0.9, time=9.0)) == [0, []]
    assert newest(phase(1, 0.1, time=10.0, iteration=4)) == [1, []]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (page(phase(1, 0.1)), 3),
        (page(phase(1, 0.1, name="checkpoint")), 3),
        (page(phase(1, 0.1, name="evaluate")), 3),
        (page(phase(1, 0.1), status="playing"), None),
        (page(phase(1, 0.1), status="waiting"), None),
        (page(phase(1, 0.1, name="rollout")), None),
        (page(phase(1, 0.1), state="paused"), None),
        (page(phase(1, 0.1, iteration=0)), None),
        (page(None), None),
        (page(phase(1, 0.1)) | {"wall": None}, None),
    ],
)
def test_the_reel_runs_only_while_nothing_is_played(state: dict[str, Any], expected: int | None) -> None:
    assert evaluate("live/reel.js", "reelIteration(data)", state) == expected
