"""Echo Trap panel: compared values, history after a rewind, texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.webapp import journal_builder
from tests.webapp.fragments import contains
from tests.webapp.javascript import evaluate
from tests.webapp.page_requests import Visitors, who
from trainer.journal import events
from trainer.metrics.trap_signals import SIGNALS, Signal
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import snapshot
from webapp.runs import echo_trap
from webapp.runs.models import Alarm, Run

__all__ = ["who"]


def metrics(iteration: int, spread: float) -> events.Metrics:
    return events.Metrics(
        iteration=iteration,
        tokens=iteration,
        seconds=iteration,
        values={"reward/mean": 1.0, "echo_trap/spread": spread, "echo_trap/spread_limit": 0.5},
    )


def collapse() -> list[events.Event]:
    """Watch at 2, trapped at 3, rewound to 1, and watch again at 2."""
    return [
        journal_builder.started(),
        metrics(1, 0.9),
        metrics(2, 0.4),
        events.Alarm(iteration=2, state="watch", message="The spread falls."),
        metrics(3, 0.2),
        events.Alarm(iteration=3, state="trapped", message="Collapse: the reward fell."),
        events.Rewound(number=1, from_iteration=3, to_iteration=1, changes={"optimizer.policy_lr": "0.0005"}),
        journal_builder.started(attempt=2, from_iteration=1),
        metrics(2, 0.45),
        events.Alarm(iteration=2, state="watch", message="It falls again."),
    ]


def test_a_rewind_keeps_the_readings_of_undone_iterations(run: Run) -> None:
    journal_builder.write(run.folder, *collapse())
    JournalTailer(run).drain()
    page = snapshot(run)
    assert [(alarm["iteration"], alarm["state"], alarm["undone"]) for alarm in page["alarms"]] == [
        (2, "watch", True),
        (3, "trapped", True),
        (2, "watch", False),
    ]
    assert page["alarm"]["message"] == "It falls again."
    assert page["rewinds"] == [
        {"number": 1, "from_iteration": 3, "to_iteration": 1, "changes": {"optimizer.policy_lr": "0.0005"}}
    ]
    assert page["evidence"]["spread"] == [[1, 0.9, 0.5], [2, 0.45, 0.5]], "the numbers of undone iterations are gone"


def test_an_interruption_removes_alarms_that_will_be_raised_again(run: Run) -> None:
    journal_builder.write(run.folder, *collapse()[:4], journal_builder.started(attempt=2, from_iteration=1))
    JournalTailer(run).drain()
    assert not Alarm.objects.filter(run=run).exists()
    assert snapshot(run)["alarm"] is None


def test_the_page_shows_values_limits_actions_and_history(run: Run, who: Visitors) -> None:
    run.config["echo_trap"] |= {"action": "rewind", "rewind_changes": {"optimizer.policy_lr": "*0.5"}}
    run.save()
    journal_builder.write(run.folder, *collapse())
    JournalTailer(run).drain()
    page = who.viewer.get(f"/runs/{run.slug}/").content.decode()
    assert "45%, limit 50%" in page
    assert "since iteration 2" in page
    assert contains(page, "Rewound from iteration 3 to 1 (rewind 1); changed optimizer.policy_lr = 0.0005.")
    assert contains(page, "rewind to the last good checkpoint")
    assert "optimizer.policy_lr ×0.5" in page
    assert page.count(f"/runs/{run.slug}/trajectories?iteration=2") >= 1, (
        "the change of state leads to its trajectories"
    )
    assert contains(page, "undone by a rewind")
    assert contains(page, "no data yet"), "signals without a value are reported as missing"


def test_bands_span_from_one_state_change_to_the_next() -> None:
    def alarm_mark(iteration: int, state: str, undone: bool = False) -> dict[str, object]:
        return {"iteration": iteration, "state": state, "undone": undone}

    found = echo_trap.bands(
        [
            alarm_mark(5, "watch"),
            alarm_mark(7, "trapped", True),
            alarm_mark(9, "trapped"),
            alarm_mark(12, "healthy"),
            alarm_mark(20, "watch"),
        ],
        25,
    )
    assert [(band["state"], band["from"], band["to"], band["open"]) for band in found] == [
        ("watch", 5, 8, False),
        ("trapped", 9, 11, False),
        ("watch", 20, 25, True),
    ]
    words = "watch in iterations 5 to 8, trapped in iterations 9 to 11, watch since iteration 20"
    assert echo_trap.bands_text(found) == words
    assert echo_trap.bands([], 3) == []


LEARNING = {"learning": [[9, 0.2, 0.1], [10, 0.0, 0.1]]}


@pytest.mark.parametrize(
    ("alarm", "evidence", "state"),
    [
        (None, {}, "unknown"),
        (None, {"learning": [], "format": []}, "unknown"),
        (None, {"reward": [[20, 0.1, 2.0]]}, "unknown"),
        (None, {"format": [[4, 1.0, 0.75]]}, "unknown"),
        (None, {"spread": [[20, 0.9, 0.5]]}, "healthy"),
        (None, {"format": [[4, 1.0, 0.75]], "learning": [[10, 0.1, 0.1]]}, "healthy"),
        (None, {"template": [[10, 1.0, 0.7]]} | LEARNING, "no_signal"),
        ("healthy", LEARNING, "no_signal"),
        ("healthy", {}, "healthy"),
        ("watch", LEARNING, "watch"),
        ("trapped", LEARNING, "trapped"),
    ],
)
def test_nothing_is_called_healthy_without_a_signal(alarm: str | None, evidence: dict[str, Any], state: str) -> None:
    assert shown(alarm, evidence, other_trainer=False) == state


def test_a_short_run_that_only_kept_the_format_is_not_green() -> None:
    assert shown(None, {"format": [[4, 1.0, 0.75]]}, state="finished", other_trainer=False) == "too_short"


@pytest.mark.parametrize(
    ("evidence", "recorded", "run_state", "state"),
    [
        ({}, [], "running", "not_recorded"),
        ({}, [], "finished", "not_recorded"),
        ({"reward": [[20, 0.1, 2.0]], "success": [[20, 1.0, 0.8]]}, ["reward/mean"], "finished", "not_recorded"),
        ({}, ["entropy/mean"], "running", "unknown"),
        ({"reward": [[20, 0.1, 2.0]]}, ["entropy/mean"], "running", "unknown"),
        ({}, ["entropy/mean"], "failed", "too_short"),
        ({"format": [[4, 1.0, 0.75]]}, ["format/valid_rate"], "running", "not_recorded"),
        ({"gradient": [[11, 0.0, 2.0]]}, ["policy/grad_norm"], "running", "healthy"),
        (LEARNING, ["reward/in_group_std"], "running", "no_signal"),
    ],
)
def test_what_a_run_of_another_trainer_did_not_record_is_never_green(
    evidence: dict[str, Any], recorded: list[str], run_state: str, state: str
) -> None:
    assert shown(None, evidence, recorded, run_state, other_trainer=True) == state


def shown(
    alarm: str | None,
    evidence: dict[str, Any],
    recorded: Sequence[str] = (),
    state: str = "running",
    *,
    other_trainer: bool,
) -> str:
    """The state that server and browser show, with the same message."""
    page = {
        "alarm": alarm and {"state": alarm, "message": "It is so.", "iteration": 1},
        "evidence": evidence,
        "curves": {name: [[1, 0.5]] for name in recorded},
        "state": state,
        "run": {"recorded": other_trainer},
    }
    found = echo_trap.get_state(page)
    assert evaluate("live/echo_trap.js", "levelOf(data)", page) == found
    data = {"page": page, "signs": {sign.key: {"title": sign.title, "bad": sign.bad} for sign in SIGNALS}}
    message = evaluate("live/echo_trap.js", "messageOf(data.page, levelOf(data.page), data.signs)", data)
    assert message == echo_trap.message(page, found)
    return found


@pytest.mark.parametrize("sign", SIGNALS, ids=lambda sign: sign.key)
def test_server_and_browser_describe_values_identically(sign: Signal) -> None:
    for value, limit in [(-3.14159, 3.0), (0.4, 0.5), (2.0, 2.0), (0.5, 0.5), (7.0, 2.0)]:
        data = [sign.bad, sign.unit, value, limit]
        assert evaluate("live/echo_trap.js", "crossed(data[0], data[2], data[3])", data) is sign.crossed(value, limit)
        assert evaluate("live/echo_trap.js", "asText(data[1], data[2])", data) == echo_trap.number_text(sign, value)
