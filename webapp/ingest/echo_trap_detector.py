"""Runs the detectors, of the Echo Trap and of faults, on runs of other trainers, using their recorded metrics.

The journals of our own trainer contain the detector's values and alarms, so its runs are not judged here. The verdict
depends only on the stored metrics of each iteration, in the order of iterations: not on how the journal was divided,
on the order of its events, or on restarts. State is kept between batches only to avoid repeating earlier iterations.

An iteration is judged once metrics of a later one have arrived, or the run has ended: trainers log the metrics of one
iteration in several events. Metrics that arrive even later are judged by repeating the iterations from there on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.diagnostics import run_faults
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.diagnostics.run_faults import RunFaults
from trainer.diagnostics.signal_checks import WATCHED, Reading
from trainer.journal import events as journal
from trainer.metrics.trap_signals import LIMIT, PREFIX
from webapp.ingest.writer import moment
from webapp.notifications.run_events import record_alarms, record_faults
from webapp.runs import echo_trap
from webapp.runs.models import Alarm, EchoTrapState, MetricPoint, Run

Closing = journal.Metrics | journal.RunFinished
STATES = 3
"""Number of states kept; the newest is the state of the last judged iteration."""
ANY_STALENESS = 10**9
"""Other trainers do not say how old their sampler's weights may be."""
_READ = tuple({*WATCHED, *run_faults.WATCHED})
BETWEEN = 64
"""Iterations between the states kept: at most twice as many are repeated for metrics that arrive a little late."""


@dataclass(frozen=True)
class JudgedIteration:
    """The detector's verdict on one iteration."""

    iteration: int
    tokens: int
    seconds: float
    readings: dict[str, Reading]
    alarm: journal.Alarm | None

    @property
    def numbers(self) -> dict[str, list[float]]:
        """Signal → value and limit."""
        pairs = {key: [reading.value, reading.limit] for key, reading in self.readings.items()}
        return {key: pair for key, pair in pairs.items() if all(map(math.isfinite, pair))}


@dataclass(frozen=True)
class JudgedBatch:
    """Additions of a batch of events to a run's verdict, for the frame of the event `seq`.

    Attributes:
        start: first iteration that was judged or judged again; earlier values of this and later iterations are void.
        evidence: signal → iteration, value and limit of the newest of these iterations.
        alarms: newest changes of state, as in the snapshot; None if there is no new one.
        faults: the present faults, as in the snapshot.
    """

    seq: int
    start: int
    evidence: dict[str, list[list[float]]]
    alarms: list[dict[str, Any]] | None
    faults: list[dict[str, Any]]

    def as_data(self) -> dict[str, Any]:
        """Return the batch for the browser; static/js/live/reducer.js applies it."""
        return {"from": self.start, "evidence": self.evidence, "faults": self.faults} | (
            {} if self.alarms is None else {"alarms": self.alarms}
        )


def do_judge_iterations(run: Run, events: Sequence[journal.AnyEvent]) -> JudgedBatch | None:
    """Judge the iterations that these stored events of another trainer complete.

    Runs in the ingest's transaction, under the run's lock. Returns None if nothing was judged.
    """
    metrics = [event for event in events if isinstance(event, journal.Metrics)]
    closing = [event for event in events if isinstance(event, journal.Metrics | journal.RunFinished)]
    started = events[0] if isinstance(events[0], journal.RunStarted) else None
    recorded = _verdict_iterations(events)
    if not (closing or started or recorded):
        return None
    state, _ = EchoTrapState.objects.get_or_create(run=run)
    if recorded:
        _leave_to_trainer(run, state, recorded, events[-1].seq)
    if state.by_trainer:
        return None
    changed = [event.iteration for event in metrics if not event.values.keys().isdisjoint(_READ)]
    if started is not None:
        changed.append(started.from_iteration + 1)
    return _judge(run, state, min(changed, default=None), closing, events[-1])


def forget(run: Run) -> None:
    """Discard a run's verdicts before its journal is read again."""
    EchoTrapState.objects.filter(run=run).delete()


# -- runs whose journals contain verdicts -----------------------------------------------------------------------------


def _verdict_iterations(events: Sequence[journal.AnyEvent]) -> list[int]:
    """Return the iterations of alarms and of the detector's metrics among the events."""
    return [
        event.iteration
        for event in events
        if isinstance(event, journal.Alarm)
        or (isinstance(event, journal.Metrics) and any(name.startswith(PREFIX) for name in event.values))
    ]


def _leave_to_trainer(run: Run, state: EchoTrapState, recorded: Sequence[int], seq: int) -> None:
    """Delete the verdicts made here before the journal contained its first one. Open pages reload.

    Args:
        recorded: iterations of the verdicts in the journal.
        seq: seq of the last event written.
    """
    if state.by_trainer:
        return
    state.by_trainer = True
    if state.states:
        run.alarms.filter(computed=True).delete()
        MetricPoint.objects.filter(run=run, name__in=echo_trap.SIGNAL_METRICS, iteration__lt=min(recorded)).delete()
        run.resync_seq = seq
    state.states = []
    state.save()


# -- judging ----------------------------------------------------------------------------------------------------------


def _judge(
    run: Run,
    state: EchoTrapState,
    changed: int | None,
    closing: Sequence[Closing],
    newest: journal.Event,
) -> JudgedBatch | None:
    """Judge the iterations that are complete and have not been judged since they changed.

    Args:
        changed: first iteration whose signals have arrived or were deleted.
        closing: events that show that earlier iterations are complete.
        newest: last event written, to which alarms belong that none of `closing` explains.
    """
    judged = state.states[-1]["iteration"] if state.states else -1
    again = changed is not None and changed <= judged
    if again:
        state.states = [kept for kept in state.states if kept["iteration"] < changed]
    after = state.states[-1]["iteration"] if state.states else -1
    if again:
        MetricPoint.objects.filter(run=run, name__in=echo_trap.SIGNAL_METRICS, iteration__gt=after).delete()
    verdicts = list(_verdicts(run, state, after))
    if not verdicts and not again:
        return None
    _store_numbers(run, verdicts)
    _set_faults(run, state.states[-1] if state.states else {}, newest)
    raised = [verdict for verdict in verdicts if verdict.alarm]
    alarms_changed = (again or bool(raised)) and _store_alarms(run, after, raised, closing, newest)
    state.save()
    if not closing:  # a new attempt: pages reload
        return None
    evidence: dict[str, list[list[float]]] = defaultdict(list)
    for verdict in verdicts:
        for key, numbers in verdict.numbers.items():
            evidence[key].append([verdict.iteration, *numbers])
    return JudgedBatch(
        closing[-1].seq,
        after + 1,
        {key: points[-echo_trap.MAX_ITERATIONS :] for key, points in evidence.items()},
        echo_trap.history(run)["alarms"] if alarms_changed else None,
        run.faults,
    )


def _verdicts(run: Run, state: EchoTrapState, after: int) -> Iterator[JudgedIteration]:
    """Yield the verdict on each complete iteration after this one, and add states to `state`.

    The detector counts only iterations with signals, since some trainers log only every tenth.
    """
    points = MetricPoint.objects.filter(run=run, name__in=_READ, iteration__gt=after)
    if not run.end_reason:
        points = points.filter(iteration__lt=run.iteration)
    values: dict[int, dict[str, float]] = {}
    axes: dict[int, tuple[int, float]] = {}
    rows = points.order_by("iteration").values_list("iteration", "name", "value", "tokens", "seconds")
    for iteration, name, value, tokens, seconds in rows.iterator():
        values.setdefault(iteration, {})[name] = value
        axes[iteration] = (tokens, seconds)
    trap, faults, count = EchoTrap(), RunFaults(ANY_STALENESS), 0
    began: dict[str, int] = {}  # iterations by cause: the detectors count
    if state.states:
        count = state.states[-1]["count"]
        trap.load_state_dict(state.states[-1]["detector"])
        faults.load_state_dict(state.states[-1].get("faults", {}))
        began = state.states[-1].get("began", {})
    last = max(values, default=None)
    for iteration in values:
        count += 1
        alarm = trap.update(count, values[iteration])
        faults.update(count, values[iteration])
        began = {cause: began.get(cause, iteration) for cause in faults.present}
        yield JudgedIteration(iteration, *axes[iteration], trap.readings, alarm)
        if iteration == last or count % BETWEEN == 0:
            detectors = {"detector": trap.state_dict(), "faults": faults.state_dict(), "began": began}
            _keep(state, {"iteration": iteration, "count": count, **detectors})


def _set_faults(run: Run, judged: dict[str, Any], newest: journal.Event) -> None:
    """Give the run the faults of its newest judged iteration, and record those that are new."""
    stored = judged.get("faults", {}).get("present", [])
    present = [fault | {"since": judged["began"][fault["cause"]]} for fault in stored]
    event = journal.Faults(
        seq=newest.seq,
        time=newest.time,
        iteration=judged.get("iteration", 0),
        present=sorted(map(journal.Fault.model_validate, present), key=lambda fault: fault.since),
    )
    record_faults(run, event)
    run.faults = [fault.model_dump() for fault in event.present]


def _keep(state: EchoTrapState, newest: dict[str, Any]) -> None:
    """Add a state; delete its predecessor unless that is BETWEEN iterations away from the state before it."""
    states = state.states
    if len(states) > 1 and newest["count"] - states[-2]["count"] < BETWEEN:
        states = states[:-1]
    state.states = [*states, newest][-STATES:]


def _store_numbers(run: Run, verdicts: Sequence[JudgedIteration]) -> None:
    MetricPoint.objects.bulk_create(
        (
            MetricPoint(
                run=run,
                name=f"{PREFIX}{key}{ending}",
                iteration=verdict.iteration,
                value=number,
                tokens=verdict.tokens,
                seconds=verdict.seconds,
            )
            for verdict in verdicts
            for key, numbers in verdict.numbers.items()
            for ending, number in zip(("", LIMIT), numbers, strict=True)
        ),
        batch_size=2000,
    )


def _store_alarms(
    run: Run,
    after: int,
    raised: Sequence[JudgedIteration],
    closing: Sequence[Closing],
    newest: journal.Event,
) -> bool:
    """Replace the alarms after an iteration. Earlier alarms are kept and not sent again.

    Returns whether any changed.
    """
    stored = list(run.alarms.filter(computed=True, undone=False, iteration__gt=after).order_by("seq", "pk"))
    new = [_alarm(run, verdict, closing, newest) for verdict in raised]
    same = 0
    while same < min(len(stored), len(new)) and _facts(stored[same]) == _facts(new[same]):
        same += 1
    run.alarms.filter(pk__in=[alarm.pk for alarm in stored[same:]]).delete()
    record_alarms(Alarm.objects.bulk_create(new[same:]))
    return same < max(len(stored), len(new))


def _facts(alarm: Alarm) -> tuple[int, str, str]:
    return alarm.iteration, alarm.state, alarm.message


def _alarm(run: Run, verdict: JudgedIteration, closing: Sequence[Closing], newest: journal.Event) -> Alarm:
    """Return the alarm of a verdict, at the event that completed its iteration."""
    assert verdict.alarm is not None
    later = (
        event for event in closing if isinstance(event, journal.RunFinished) or event.iteration > verdict.iteration
    )
    event = next(later, newest)
    return Alarm(
        run=run,
        seq=event.seq,
        iteration=verdict.iteration,
        state=verdict.alarm.state,
        message=verdict.alarm.message,
        evidence=verdict.alarm.evidence,
        computed=True,
        time=moment(event.time),
    )
