"""The log of a run: notices, and text of other events of its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from trainer.journal import events as journal
from trainer.metrics.training_use import TRAINED, TRAINING_USES
from webapp.core import formatting
from webapp.runs.faults import titles
from webapp.runs.models import LogLine, Notice, Run

ALARM_LEVELS = {"healthy": "info", "watch": "warning", "trapped": "error"}
END_LEVELS = {
    "completed": "info",
    "interrupted": "info",
    "echo_trap": "warning",
    "no_signal": "warning",
    "budget": "warning",
    "error": "error",
}
SKIP_REASONS = {"filter": "the filter kept no puzzle", "no_signal": "no kept puzzle has different rewards"}
METRICS = (
    ("success/rate", "success", formatting.percent),
    ("reward/mean", "reward", formatting.signed),
    ("sft/loss", "imitation loss", formatting.number),
)


def store(run: Run, events: Sequence[journal.AnyEvent]) -> None:
    """Store notices and log lines of new events. `run` (not saved) is in its state before these events."""
    Notice.objects.bulk_create(
        Notice(run=run, seq=event.seq, level=event.level, message=event.message, time=_moment(event))
        for event in events
        if isinstance(event, journal.Notice)
    )
    LogLine.objects.bulk_create(
        LogLine(run=run, seq=event.seq, level=level, message=message, time=_moment(event))
        for event, level, message in lines(events, (run.phase, run.phase_iteration), run.task_noun, run.when)
    )


def _moment(event: journal.AnyEvent) -> datetime:
    return datetime.fromtimestamp(event.time, tz=UTC)


def lines(
    events: Iterable[journal.AnyEvent], phase: tuple[str, int], noun: str, when: Callable[[int], str]
) -> Iterator[tuple[journal.AnyEvent, str, str]]:
    """Yield (event, level, text) of each event that is a log line.

    Args:
        phase: phase and iteration before the first event.
        noun: the run's term for an initial state on its pages (Run.task_noun).
        when: text for an iteration, such as “after iteration 8” (Run.when).
    """
    for event in events:
        if isinstance(event, journal.Phase):
            begins, phase = (event.phase, event.iteration) != phase, (event.phase, event.iteration)
            if not begins:
                continue
        level_and_text = _line(event, noun, when)
        if level_and_text is not None and level_and_text[1]:
            yield event, *level_and_text


def _line(event: journal.AnyEvent, noun: str, when: Callable[[int], str]) -> tuple[str, str] | None:  # noqa: C901 - a line for each kind of event
    match event:
        case journal.RunStarted():
            return "info", _start(event, when)
        case journal.Phase():
            return "info", _phase(event)
        case journal.GroupsScored():
            kept = sum(group.kept for group in event.groups)
            total = formatting.plural(len(event.groups), noun)
            return "info", f"Iteration {event.iteration}: rollout done, {kept} of {total} kept for the update."
        case journal.GroupsReplaced():
            total = formatting.plural(event.informative + len(event.replaced), noun)
            return "info", (
                f"Iteration {event.iteration}: {event.informative} of {total} have different rewards; round "
                f"{event.round_number} of at most {event.rounds} replaces the others."
            )
        case journal.UpdateSkipped():
            row = f", for {event.consecutive} iterations in a row" if event.consecutive > 1 else ""
            return "info", f"Iteration {event.iteration}: no update, because {SKIP_REASONS[event.reason]}{row}."
        case journal.AttemptsUsed():
            return "info", _uses(event)
        case journal.Faults():
            words = titles([fault.model_dump() for fault in event.present])
            if not words:
                return "info", f"Iteration {event.iteration}: the faults are gone."
            return "warning", f"Iteration {event.iteration}: the run is sick. {words}."
        case journal.Metrics():
            return "info", _metrics(event, when)
        case journal.Evaluation():
            return "info", (
                f"Evaluation of {event.suite} {when(event.iteration)}: {formatting.percent(event.success)} of "
                f"{formatting.plural(event.prompts, noun)} solved (95% interval "
                f"{formatting.percent(event.success_low)} to {formatting.percent(event.success_high)})."
            )
        case journal.CheckpointSaved():
            return "info", f"Checkpoint after iteration {event.iteration} saved, {event.bytes / 1e6:,.1f} MB."
        case journal.Alarm():
            return ALARM_LEVELS[event.state], (
                f"Echo Trap, iteration {event.iteration}: {event.state}. {event.message}"
            )
        case journal.Rewound():
            return "warning", (
                f"Rewind {event.number}: back from iteration {event.from_iteration} to {event.to_iteration}."
            )
        case journal.SettingsChanged():
            return _changed(event)
        case journal.Notice():
            return event.level, event.message
        case journal.RunFinished():
            return END_LEVELS[
                event.reason
            ], event.message or f"Ended after iteration {event.iteration}: {event.reason}."
    return None


def _changed(event: journal.SettingsChanged) -> tuple[str, str]:
    wanted = [f"{name} = {value}" for name, value in event.changes.items()]
    if event.rewind_to is not None:
        wanted = [f"a rewind to iteration {event.rewind_to}", *wanted]
    listed = ", ".join(wanted)
    asked = f"{event.by} requested {listed}" if event.by else f"Requested: {listed}" if event.request else listed
    reason = f" ({event.why})" if event.why else ""
    if event.refused:
        return "warning", f"{asked}{reason}, which was refused: {event.refused}."
    return "info", f"{asked}{reason}, from iteration {event.iteration} on."


def _start(event: journal.RunStarted, when: Callable[[int], str]) -> str:
    begins = ", from the beginning" if event.attempt > 1 else ""
    continued = event.from_iteration > 0 or (event.from_iteration < 0 and event.attempt > 1)
    after = f", continues {when(event.from_iteration)}" if continued else begins
    device = f" on {event.device}" if event.device else ""
    return f"Attempt {event.attempt} started{device}{after}."


def _uses(event: journal.AttemptsUsed) -> str:
    counts = event.counts
    attempts = formatting.plural(sum(counts.values()), "attempt")
    rest = [f"{number} {TRAINING_USES[use].label.lower()}" for use, number in counts.items() if use != TRAINED]
    ends = f"; {', '.join(rest)}" if rest else ""
    return f"Iteration {event.iteration}: the update learnt from {event.trained} of {attempts}{ends}."


def _metrics(event: journal.Metrics, when: Callable[[int], str]) -> str:
    values = [
        f"{word} {format_value(event.values[name])}" for name, word, format_value in METRICS if name in event.values
    ]
    warms_up = event.iteration < 0 or "sft/loss" in event.values
    if warms_up and not values:
        return ""  # part of an evaluation, which has its own line
    done = when(event.iteration).capitalize() if warms_up else f"Iteration {event.iteration} done"
    return f"{done}{': ' if values else ''}{', '.join(values)}."


def _phase(event: journal.Phase) -> str:
    size = f" of {event.total:,} {event.unit}" if event.total and event.unit else ""
    head = f"Iteration {event.iteration}: " if event.iteration else ""
    match event.phase:
        case "load":
            return "Loading the policy."
        case "warmup":
            return f"Warm-up{size}."
        case "evaluate":
            return f"Evaluation {f'after iteration {event.iteration} ' if event.iteration else ''}started{size}."
        case "rollout":
            return f"{head}rollout{size} started."
        case "update":
            return f"{head}update started."
    return ""  # a checkpoint is logged when it is saved
