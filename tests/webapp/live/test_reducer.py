"""The live page: the snapshot plus the events since its seq must equal the page reloaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from tests.webapp import recorded_journal
from tests.webapp.javascript import evaluate
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from trainer.journal.writer import Journal
from webapp.core import formatting
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import heading, snapshot
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import trajectory_data as played_data


def without_format(events: list[journal.Event]) -> list[journal.Event]:
    """The events as a trainer that judges the format of some turns sends them, without rewards and tokens."""
    return [
        event.model_copy(update={"tokens": None} | ({"format_valid": None} if number % 3 else {}))
        if isinstance(event, journal.Turn)
        else event.model_copy(update={"tokens": None, "total_reward": None})
        if isinstance(event, journal.TrajectoryFinished)
        else event
        for number, event in enumerate(events)
    ]


def everything(config: RunConfig) -> list[journal.Event]:
    """A run with every event that affects a page."""
    return [
        recorded_journal.started(config),
        journal.Notice(level="info", message="The warm-up is in the cache."),
        journal.Phase(phase="evaluate", iteration=0, done=3, total=256, unit="prompts"),
        recorded_journal.evaluated(0, 0.35),
        *recorded_journal.iteration(config, 1, skill=0.5),
        journal.CheckpointSaved(iteration=1, path="checkpoints/1", bytes=10),
        journal.Alarm(iteration=1, state="watch", message="The spread falls."),
        *recorded_journal.iteration(config, 2, skill=0.7),
        recorded_journal.evaluated(2, 0.5, final=True),
        journal.Phase(
            phase="update",
            iteration=2,
            done=3,
            total=8,
            unit="micro-batches",
            eta_seconds=60.0,
            eta_low_seconds=50.0,
            eta_high_seconds=80.0,
            share=0.4,
            iteration_shares={"rollout": 0.3, "update": 0.7},
            update=journal.UpdateProgress(stage="step", pass_number=1, passes=2, groups=[0, 3]),
        ),
        journal.Alarm(iteration=2, state="healthy", message="It rose again."),
        journal.Faults(iteration=2, present=[journal.Fault(cause="truncation", since=2, text="90% were.")]),
        *(journal.Notice(level="warning", message=f"Notice {number}") for number in range(25)),
        *without_format(list(recorded_journal.iteration(config, 3, skill=0.7, stop_after=2))),
    ]


WARM_UP = 4


def warm_up(config: RunConfig) -> list[journal.Event]:
    """A run up to the third of four steps on demonstrations, continued and trained for an iteration."""
    start = recorded_journal.started(config)

    def attempt(number: int, finished: int) -> journal.Event:
        return start.model_copy(update={"attempt": number, "from_iteration": finished, "evaluated_iteration": finished})

    def steps(first: int, last: int) -> list[journal.Event]:
        events: list[journal.Event] = []
        for step in range(first, last):
            share = (step + 0.5) / WARM_UP
            phase = journal.Phase(phase="warmup", iteration=0, done=step, total=WARM_UP, unit="steps", share=share)
            left = {"eta_seconds": 90.0 - step, "eta_low_seconds": 50.0, "eta_high_seconds": 180.0} if step else {}
            values = {"sft/loss": 1.0 - step / WARM_UP, "time/warmup": 3.0}
            number = step + 1 - WARM_UP
            events += [
                phase.model_copy(update=left),
                journal.Metrics(iteration=number, tokens=90 * (step + 1), seconds=3.0 * step, values=values),
            ]
        return events

    return [
        attempt(1, -WARM_UP),
        journal.Phase(phase="evaluate", iteration=0, done=1, total=8, unit="trajectories"),
        recorded_journal.evaluated(-WARM_UP, 0.0),
        *steps(0, 3),
        attempt(2, -2),
        *steps(2, 4),
        journal.Phase(phase="checkpoint", iteration=0),
        recorded_journal.evaluated(0, 0.3),
        *recorded_journal.iteration(config, 1, skill=0.5),
    ]


def reduced_from(
    start: Callable[[Run], dict[str, Any]],
    share: float,
    run: Run,
    folder: Path,
    settings: Settings,
    played: Callable[[RunConfig], list[journal.Event]] = everything,
) -> dict[str, Any]:
    """State of a page that loaded after a share of the events and received the rest."""
    settings.ECHOSCOPE_DATA_DIR = folder
    config = RunConfig.model_validate(run.config)
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING, title=config.title(), config=run.config)
    events = played(config)
    cut = max(1, int(len(events) * share))
    log = Journal(run.folder)
    log.write(*events[:cut])
    run.refresh_from_db()
    ingest = JournalTailer(run)
    ingest.drain()
    run.refresh_from_db()
    early = as_json(start(run))
    log.write(*events[cut:])
    ingest.drain()
    frames = [
        json.loads(frame) for frame in run.batches.filter(last_seq__gt=early["seq"]).values_list("frame", flat=True)
    ]
    later = [event for frame in frames for event in frame["events"]]
    reduced: dict[str, Any] = evaluate(
        "live/reducer.js", "reduceAll(data.state, data.events)", {"state": early, "events": later}
    )
    return reduced


@pytest.mark.parametrize("share", [0.0, 0.03, 0.2, 0.45, 0.7, 0.93])
def test_a_snapshot_updated_by_events_equals_a_reloaded_one(
    share: float, run: Run, tmp_path: Path, settings: Settings
) -> None:
    reduced = reduced_from(snapshot, share, run, tmp_path, settings)
    reloaded = as_json(snapshot(run))
    stage = reduced.pop("stage")
    reloaded.pop("stage")
    assert reduced == reloaded
    if stage is not None:  # a page stays with the trajectory on its stage while the snapshot takes the newest
        assert stage == as_json(played_data(Trajectory.objects.get(run=run, key=stage["id"])))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.4, 0.6])
def test_a_page_follows_a_warm_up_and_the_attempt_that_continues_it(
    share: float, run: Run, tmp_path: Path, settings: Settings
) -> None:
    run.config["policy"]["model"], run.config["sft"]["warmup_steps"] = "org/model", WARM_UP
    reduced = reduced_from(snapshot, share, run, tmp_path, settings, warm_up)
    reloaded = as_json(snapshot(run))
    assert reduced | {"stage": None} == reloaded | {"stage": None}
    assert reduced["run"]["warmup_steps"] == WARM_UP
    assert 0 < reduced["run"]["warmup_share"] < 1
    run.refresh_from_db()
    shown = {"phase": reduced["phase"], "run": reduced["run"]}
    bar = evaluate("ui/formatting.js", 'progress(data.phase, data.run, "running")', shown)
    assert bar == pytest.approx(formatting.progress(run.phase_facts, run.length, "running"))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7])
def test_headers_of_other_tabs_are_updated_by_events(
    share: float, run: Run, tmp_path: Path, settings: Settings
) -> None:
    reduced = reduced_from(heading, share, run, tmp_path, settings)
    reloaded = as_json(snapshot(run))
    shown = ("seq", "attempt", "state", "run", "phase")
    assert [reduced[name] for name in shown] == [reloaded[name] for name in shown]
    assert reduced.keys() == reloaded.keys()


def test_duplicate_events_change_nothing(run: Run, tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    config = RunConfig.model_validate(run.config)
    log = Journal(run.folder)
    log.write(*everything(config))
    JournalTailer(run).drain()
    frames = [json.loads(frame) for frame in run.batches.values_list("frame", flat=True)]
    events = [event for frame in frames for event in frame["events"]]
    state = as_json(snapshot(run))
    assert (
        evaluate("live/reducer.js", "reduceAll(data.state, data.events)", {"state": state, "events": events}) == state
    )


def test_the_reducer_does_not_mutate_its_input(run: Run, tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    config = RunConfig.model_validate(run.config)
    log = Journal(run.folder)
    log.write(*everything(config))
    state = as_json(snapshot(run))
    JournalTailer(run).drain()
    events = [event for frame in run.batches.values_list("frame", flat=True) for event in json.loads(frame)["events"]]
    each = "Object.values(o).forEach(v => v && typeof v === 'object' && f(v));"
    freeze = f"(function f(o) {{ {each} return Object.freeze(o); }})"
    expression = f"reduceAll({freeze}(data.state), {freeze}(data.events)).seq"
    assert evaluate("live/reducer.js", expression, {"state": state, "events": events}) == len(events)


def recorded(config: RunConfig) -> list[journal.Event]:
    """A longer run: two suites, alarms on the way down, a rewind, curves long enough for buckets of several widths."""
    events: list[journal.Event] = [recorded_journal.started(config), recorded_journal.evaluated(0, 0.35)]
    for number in range(1, 451):
        if number in (60, 200):
            events += recorded_journal.iteration(config, number, skill=0.5)
        levels = [sum(map(ord, f"{number}{name}")) % 97 / 10 for name in ("mean", "limit", "entropy")]
        events.append(
            journal.Metrics(
                iteration=number,
                tokens=number * 900,
                seconds=number * 2.5,
                values={"reward/mean": levels[0], "entropy/mean": levels[2], "policy/loss": levels[1]}
                | ({"echo_trap/spread": levels[0], "echo_trap/spread_limit": levels[1]} if number % 7 else {})
                | ({"echo_trap/reward": levels[2]} if number % 3 else {}),
            )
        )
        if number % 30 == 0:
            state = ("watch", "trapped", "healthy")[number // 30 % 3]
            events.append(journal.Alarm(iteration=number, state=state, message=f"It is {state}."))
        if number % 100 == 0:
            events.append(recorded_journal.evaluated(number, 0.3 + number / 1000))
            events.append(
                journal.Evaluation(
                    iteration=number,
                    suite="large",
                    prompts=8,
                    success=0.5,
                    success_low=0.2,
                    success_high=0.8,
                    mean_reward=1.0,
                    mean_turns=1.0,
                    mean_actions=1.0,
                )
            )
    rewound = journal.Rewound(number=1, from_iteration=450, to_iteration=400, changes={"optimizer.policy_lr": "0.0005"})
    return [*events, rewound, journal.Notice(level="warning", message="Back to iteration 400.")]


def test_updates_from_any_state_equal_a_reload(run: Run, tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    config = RunConfig.model_validate(run.config)
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING, title=config.title())
    log, events = Journal(run.folder), recorded(config)
    run.refresh_from_db()
    ingest, pages = JournalTailer(run), []
    step = max(1, len(events) // 45)
    for begin in range(0, len(events), step):
        log.write(*events[begin : begin + step])
        ingest.drain()
        pages.append(as_json(snapshot(run)))
    frames = [json.loads(frame) for frame in run.batches.order_by("last_seq").values_list("frame", flat=True)]
    all_events = [event for frame in frames for event in frame["events"]]

    @given(st.tuples(st.integers(0, len(pages) - 1), st.integers(0, len(pages) - 1)))
    def assert_continues(ends: tuple[int, int]) -> None:
        early, late = (pages[at] for at in sorted(ends))
        between = [event for event in all_events if early["seq"] < event["seq"] <= late["seq"]]
        reduced = evaluate("live/reducer.js", "reduceAll(data.state, data.events)", {"state": early, "events": between})
        assert {**reduced, "stage": None} == {**late, "stage": None}

    assert_continues()
    assert len(pages[-1]["curves"]["reward/mean"]) < 400, "it was long enough to be cut into buckets"
    assert pages[-1]["alarm"]["iteration"] <= 400, "what the rewind undid stands no more"
    assert any(alarm["undone"] for alarm in pages[-1]["alarms"])


def as_json(data: Any) -> Any:
    return json.loads(json.dumps(data))
