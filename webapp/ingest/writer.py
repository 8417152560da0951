"""Writes journal events to the tables, in bulk and within the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import UnionType
from typing import Any

from django.db import connection
from django.db.models import Case, Model, Q, Value, When

from trainer.journal import events as journal
from trainer.journal import token_arrays
from trainer.metrics.training_use import TRAINED, USE_PREFIX
from webapp.annotations.queries import is_annotated
from webapp.branching.models import EvaluationQuestion
from webapp.core import ids
from webapp.core.database import delete_in_chunks, lift_statement_timeout
from webapp.ingest import log_text
from webapp.ingest.lines import JournalLine, leave_out
from webapp.ingest.turn_totals import turn_totals
from webapp.notifications.run_events import record_alarms, record_evaluation, record_faults
from webapp.runs import setting_changes
from webapp.runs.echo_trap import record_rewind
from webapp.runs.generalization import record_matrix
from webapp.runs.models import Alarm, Checkpoint, Evaluation, MetricPoint, Run, TimelinePart
from webapp.trajectories.end_reasons import end_columns
from webapp.trajectories.models import Group, ShareLink, TokenArrays, Trajectory, Turn

WRITTEN = [
    "environment",
    "attempt",
    "continued_from",
    "iterations",
    "iteration",
    "device",
    "parameters",
    "phase",
    "phase_iteration",
    "phase_done",
    "phase_total",
    "phase_unit",
    "tokens_per_second",
    "eta_seconds",
    "eta_low_seconds",
    "eta_high_seconds",
    "phase_progress",
    "faults",
    "training_use",
    "end_reason",
    "end_message",
    "summary",
    "journal_offset",
    "journal_tail",
    "seq",
    "resync_seq",
    "journal_error",
    "started_at",
    "progressed_at",
    "state",
]
"""Columns of a run that the ingest writes; `state` only from starting to running."""


def moment(time: float) -> datetime:
    return datetime.fromtimestamp(time, tz=UTC)


def validate(run: Run, lines: list[JournalLine], *, skip_bad_lines: bool) -> tuple[list[JournalLine], str]:
    """Return the lines up to the first inconsistent one (an unannounced trajectory, a repeated turn), and its problem.

    With `skip_bad_lines`, placeholders replace such lines.
    """
    if not lines:
        return [], ""
    first = lines[0].event
    attempt = first.attempt if isinstance(first, journal.RunStarted) else run.attempt
    keys: set[str] = set()
    for line in lines:
        if isinstance(line.event, journal.GroupStarted):
            keys.update(line.event.members)
        elif isinstance(line.event, journal.Turn | journal.TrajectoryFinished | journal.TrajectoryTokens):
            keys.add(line.event.trajectory)
    states = (
        {}
        if attempt != run.attempt
        else {
            key: state_of(turns, finished, arrays)
            for key, turns, finished, arrays in Trajectory.objects.current()
            .filter(run=run, attempt=attempt, key__in=keys)
            .values_list("key", "turn_count", "finished_seq", "token_arrays")
        }
    )
    accepted: list[JournalLine] = []
    for line in lines:
        if problem := inconsistency(line.event, states):
            problem = f"line {line.event.seq} {problem}"
            if not skip_bad_lines:
                return accepted, problem
            line = leave_out(line.event.seq, line.size, problem)
        accepted.append(line)
    return accepted, ""


_ENDED, _TOKENS_WRITTEN = -1, -2  # end states in place of a number of turns: ended; ended and its tokens written


def state_of(turns: int, finished_seq: int | None, token_arrays: int | None) -> int:
    """Return the state of an attempt for `inconsistency` from its columns."""
    if finished_seq is None:
        return turns
    return _ENDED if token_arrays is None else _TOKENS_WRITTEN


def inconsistency(event: journal.AnyEvent, states: dict[str, int]) -> str:
    """Explain why the event contradicts earlier ones, or return "". Updates `states`, the turns or end state by id."""
    match event:
        case journal.GroupStarted():
            members = event.members
            twice = [key for at, key in enumerate(members) if key in states or key in members[:at]]
            if twice:
                return f"starts trajectory {twice[0]} a second time"
            states.update(dict.fromkeys(members, 0))
        case journal.Turn():
            return _turn_inconsistency(event, states)
        case journal.TrajectoryFinished():
            if states.get(event.trajectory, -1) < 0:
                return f"ends trajectory {event.trajectory}, which is not being played"
            states[event.trajectory] = _ENDED
        case journal.TrajectoryTokens():
            if (state := states.get(event.trajectory)) != _ENDED:
                why = "again" if state == _TOKENS_WRITTEN else "which has not ended"
                return f"has the tokens of trajectory {event.trajectory}, {why}"
            states[event.trajectory] = _TOKENS_WRITTEN
        case journal.RunStarted():
            states.clear()
    return ""


def _turn_inconsistency(event: journal.Turn, states: dict[str, int]) -> str:
    turns = states.get(event.trajectory)
    if turns is None:
        return f"has a turn of trajectory {event.trajectory}, which no group_started announced"
    if turns < 0:
        return f"has a turn of trajectory {event.trajectory} after its end"
    if event.turn != turns:
        return f"has turn {event.turn} of trajectory {event.trajectory} where turn {turns} was expected"
    states[event.trajectory] += 1
    return ""


def write(run: Run, lines: Sequence[JournalLine]) -> dict[int, list[str]]:
    """Store the events and bring `run` (not saved) up to date. Returns the members' slugs by seq of group_started.

    Only the first event may be a run_started.
    """
    events = [line.event for line in lines]
    if isinstance(events[0], journal.RunStarted):
        _start_attempt(run, events[0])
    started = [event for event in events if isinstance(event, journal.GroupStarted)]
    if started and not run.environment:  # another trainer's run, whose settings do not name it
        run.environment = started[0].environment[:100]
    slugs = _groups(run, started)
    write_played(run, lines)
    for kinds, store in _STORES:
        if found := [event for event in events if isinstance(event, kinds)]:
            store(run, found)
    return slugs


def _start_attempt(run: Run, event: journal.RunStarted) -> None:
    if event.attempt > 1:
        _supersede(run, event)
        run.resync_seq = event.seq
    run.attempt, run.iteration, run.iterations = event.attempt, event.from_iteration, event.iterations
    run.continued_from = event.from_iteration
    if run.training_use and run.training_use["iteration"] > event.from_iteration:
        run.training_use = None
    run.device, run.parameters = event.device[:200], event.parameters
    run.end_reason = run.end_message = ""
    run.summary = {}
    run.faults = []  # the attempt begins with the faults of its checkpoint
    run.started_at = run.started_at or moment(event.time)
    if run.state == Run.State.STARTING:
        run.state = Run.State.RUNNING


def _supersede(run: Run, event: journal.RunStarted) -> None:
    """Delete what the new attempt repeats. Shared or annotated trajectories remain readable but leave all lists."""
    lift_statement_timeout()  # an import may repeat a whole run
    iteration, evaluated, kept = event.from_iteration, event.evaluated_iteration, event.evaluated_suites
    later = MetricPoint.objects.filter(run=run, iteration__gt=iteration)
    later.delete()
    Alarm.objects.filter(run=run, iteration__gt=iteration, undone=False).delete()
    Checkpoint.objects.filter(run=run, iteration__gt=iteration).delete()
    TimelinePart.objects.filter(run=run, part="iteration", iteration__gt=iteration).update(repeated=True)
    Evaluation.objects.filter(run=run, iteration__gt=evaluated).exclude(suite__in=kept).delete()
    asked = EvaluationQuestion.objects.filter(run=run, iteration__gt=evaluated, requested_at__lt=moment(event.time))
    asked.exclude(suite__in=kept).delete()
    evaluations = Q(split="eval", iteration__gt=evaluated) & ~Q(suite__in=kept)
    repeated = Group.objects.filter(Q(split="train", iteration__gt=iteration) | evaluations, run=run)
    shared = ShareLink.objects.filter(trajectory__group__in=repeated).values("trajectory")
    gone = Trajectory.objects.filter(group__in=repeated).exclude(pk__in=shared).exclude(is_annotated())
    delete_in_chunks(gone)
    repeated.filter(trajectories__isnull=True).delete()
    Trajectory.objects.filter(group__in=repeated).update(superseded=True)
    repeated.update(superseded=True)


def _groups(run: Run, events: Sequence[journal.GroupStarted]) -> dict[int, list[str]]:
    groups = Group.objects.bulk_create(
        [
            Group(
                run=run,
                attempt=run.attempt,
                iteration=event.iteration,
                split=event.split,
                suite=event.suite or "",
                number=event.group,
                environment=event.environment,
                seed=event.seed,
                prompt=event.prompt,
                board=event.board.model_dump(exclude_none=True),
                hint=event.hint.model_dump(exclude_none=True) if event.hint else None,
                extra=event.extra,
            )
            for event in events
        ],
        **_replacing(run, Group, _GROUP_KEY),
    )
    kept = _left_by_a_rebuild(run, [key for event in events for key in event.members])
    made = Trajectory.objects.bulk_create(
        [
            Trajectory(
                slug=kept.get(key) or ids.slug(),
                run=run,
                group=group,
                attempt=run.attempt,
                key=key,
                member=member,
                iteration=event.iteration,
                split=event.split,
                last_seq=event.seq,
            )
            for group, event in zip(groups, events, strict=True)
            for member, key in enumerate(event.members)
        ],
        **_replacing(run, Trajectory, _TRAJECTORY_KEY, "slug", "pinned"),
    )
    slugs = iter(trajectory.slug for trajectory in made)
    return {event.seq: [next(slugs) for _ in event.members] for event in events}


_GROUP_KEY = ["run", "iteration", "split", "suite", "number", "attempt"]
_TRAJECTORY_KEY = ["run", "attempt", "key"]


def _replacing(run: Run, model: type[Model], key: list[str], *kept: str) -> dict[str, Any]:
    """Return options of bulk_create that, after a rebuild, fill rows of an earlier reading with the same key again."""
    if not run.rebuilds:
        return {}
    columns = [field.name for field in model._meta.concrete_fields if not field.primary_key]
    changed = [name for name in columns if name not in key and name not in kept]
    return {"update_conflicts": True, "unique_fields": key, "update_fields": changed}


def _left_by_a_rebuild(run: Run, keys: Sequence[str]) -> dict[str, str]:
    """Return the slugs that an earlier reading gave to trajectories, to keep permalinks; deletes their turns."""
    if not run.rebuilds:
        return {}
    left = Trajectory.objects.filter(run=run, attempt=run.attempt, key__in=keys)
    Turn.objects.filter(trajectory__in=left).delete()
    TokenArrays.objects.filter(trajectory__in=left).delete()
    return dict(left.values_list("key", "slug"))


def write_played(run: Run, lines: Sequence[JournalLine]) -> None:
    """Store turns and ends of trajectories in three statements; the database parses the journal's lines itself."""
    turns = [line.event for line in lines if isinstance(line.event, journal.Turn)]
    ends = [line.event for line in lines if isinstance(line.event, journal.TrajectoryFinished)]
    if turns:
        texts = ",".join(line.text for line in lines if isinstance(line.event, journal.Turn))
        _execute(_INSERT_TURNS, f"[{texts}]", run)
        _execute(_UPDATE_PLAYED, json.dumps(turn_totals(turns)), run)
    if ends:
        _execute(_UPDATE_ENDED, json.dumps([end_columns(event) for event in ends]), run)


def _execute(statement: str, data: str, run: Run) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, [data, run.pk, run.attempt])


_INSERT_TURNS = """
    INSERT INTO trajectories_turn (trajectory_id, number, seq, reward, format_valid, event)
    SELECT t.id, (e->>'turn')::int, (e->>'seq')::bigint, (e->>'reward')::float8, (e->>'format_valid')::bool, e
    FROM jsonb_array_elements(%s::jsonb) AS e
    JOIN trajectories_trajectory AS t ON t.run_id = %s AND t.attempt = %s AND t.key = e->>'trajectory'
"""
_UPDATE_PLAYED = """
    UPDATE trajectories_trajectory AS t SET status = 'playing', turn_count = t.turn_count + n.turns,
        action_count = t.action_count + n.actions, token_count = t.token_count + n.tokens,
        total_reward = t.total_reward + n.reward, format_error = t.format_error OR n.broken, last_seq = n.seq,
        true_claims = coalesce(t.true_claims + n.true_claims, n.true_claims, t.true_claims),
        false_claims = coalesce(t.false_claims + n.false_claims, n.false_claims, t.false_claims),
        false_claim_kinds = CASE WHEN n.false_claim_kinds <@ t.false_claim_kinds THEN t.false_claim_kinds ELSE ARRAY(
            SELECT DISTINCT kind COLLATE "C" AS kind FROM unnest(t.false_claim_kinds || n.false_claim_kinds) AS kind
            ORDER BY kind) END
    FROM jsonb_to_recordset(%s::jsonb)
        AS n (trajectory text, turns int, actions int, tokens int, reward float8, broken bool, seq bigint,
              true_claims int, false_claims int, false_claim_kinds varchar[])
    WHERE t.run_id = %s AND t.attempt = %s AND t.key = n.trajectory
"""
_UPDATE_ENDED = """
    UPDATE trajectories_trajectory AS t SET status = CASE WHEN n.success THEN 'success'
                                                             WHEN n."end" = 'interrupted' THEN 'interrupted'
                                                             WHEN n.success IS NULL THEN 'unknown'
                                                             ELSE 'failed' END,
        "end" = n."end", total_reward = coalesce(n.total_reward, 0), rewarded = n.total_reward IS NOT NULL,
        turn_count = n.turns, action_count = n.actions,
        token_count = n.tokens, format_error = CASE WHEN n.turns > 0 OR n.tokens >= 0 THEN t.format_error END,
        error = coalesce(n.error, ''), lost_at = nullif(n.lost_at, 'null'::jsonb),
        lost_turn = (n.lost_at->>'turn')::int, end_reason = n.end_reason, last_seq = n.seq, finished_seq = n.seq,
        extra = nullif(n.extra, 'null'::jsonb)
    FROM jsonb_to_recordset(%s::jsonb)
        AS n (trajectory text, success bool, "end" text, total_reward float8, turns int, actions int, tokens int,
              error text, lost_at jsonb, end_reason text, seq bigint, extra jsonb)
    WHERE t.run_id = %s AND t.attempt = %s AND t.key = n.trajectory
"""


def write_tokens(run: Run, events: Sequence[journal.TrajectoryTokens]) -> None:
    keys = [event.trajectory for event in events]
    trajectories = Trajectory.with_branches.filter(run=run, attempt=run.attempt, key__in=keys)
    ids = dict(trajectories.values_list("key", "pk"))
    TokenArrays.objects.filter(trajectory__in=ids.values(), computed_from__isnull=False).delete()
    TokenArrays.objects.bulk_create(
        TokenArrays(trajectory_id=ids[event.trajectory], data=token_arrays.compressed(event.data)) for event in events
    )
    known = [event for event in events if event.mismatch is not None]
    Trajectory.objects.bulk_update(
        [Trajectory(pk=ids[event.trajectory], mismatch=event.mismatch) for event in known], ["mismatch"]
    )


def _score(run: Run, events: Sequence[journal.GroupsScored]) -> None:
    for event in events:
        scores = {score.group: score for score in event.groups}
        groups = list(
            Group.objects.filter(
                run=run, attempt=run.attempt, iteration=event.iteration, split="train", number__in=scores
            )
        )
        for group in groups:
            score = scores[group.number]
            group.mean, group.std, group.kept = score.mean, score.std, score.kept
        Group.objects.bulk_update(groups, ["mean", "std", "kept"])


def _use(run: Run, events: Sequence[journal.AttemptsUsed]) -> None:
    for event in events:
        played = Trajectory.objects.filter(
            run=run, attempt=run.attempt, iteration=event.iteration, split="train", superseded=False
        )
        unused = {reason: ids for reason, ids in event.unused.items() if ids}
        cases = [When(key__in=ids, then=Value(reason)) for reason, ids in unused.items()]
        played.update(training_use=Case(*cases, default=Value(TRAINED)))
        run.training_use = {"iteration": event.iteration, "counts": event.counts}
        if run.recorded is not None:  # our trainer's metrics have the counts
            values = {f"{USE_PREFIX}{use}": float(number) for use, number in event.counts.items()}
            seconds = event.time - run.started_at.timestamp() if run.started_at else 0.0
            _points(run, [journal.Metrics(iteration=event.iteration, seconds=seconds, values=values)])


def _metrics(run: Run, events: Sequence[journal.Metrics]) -> None:
    run.iteration = max(run.iteration, *(event.iteration for event in events))
    _points(run, events)


def _points(run: Run, events: Sequence[journal.Metrics]) -> None:
    """Store the last value of each metric and iteration in one statement; models would take most of the time."""
    newest = {
        (name, event.iteration): (value, event.tokens or 0, event.seconds)
        for event in events
        for name, value in event.values.items()
    }
    if not newest:
        return
    names, iterations = zip(*newest, strict=True)
    values, tokens, seconds = zip(*newest.values(), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_POINTS, [run.pk, *map(list, (names, iterations, values, tokens, seconds))])


_INSERT_POINTS = """
    INSERT INTO runs_metricpoint (run_id, name, iteration, value, tokens, seconds)
    SELECT %s, * FROM unnest(%s::text[], %s::int[], %s::float8[], %s::bigint[], %s::float8[])
    ON CONFLICT (run_id, name, iteration)
        DO UPDATE SET value = EXCLUDED.value, tokens = EXCLUDED.tokens, seconds = EXCLUDED.seconds
"""


def _timeline(run: Run, events: Sequence[journal.IterationTimeline]) -> None:
    TimelinePart.objects.bulk_create(
        [
            TimelinePart(
                run=run,
                attempt=run.attempt,
                iteration=event.iteration,
                part=event.part,
                began=moment(event.began),
                seconds=event.seconds,
                tracks=event.model_dump(include={"tracks"})["tracks"],
            )
            for event in events
        ],
        ignore_conflicts=True,
    )


def _alarms(run: Run, events: Sequence[journal.Alarm]) -> None:
    alarms = [
        Alarm(
            run=run,
            seq=event.seq,
            iteration=event.iteration,
            state=event.state,
            message=event.message,
            evidence=event.evidence,
            time=moment(event.time),
        )
        for event in events
    ]
    record_alarms(Alarm.objects.bulk_create(alarms))


def _phase(run: Run, events: Sequence[journal.Phase]) -> None:
    event = events[-1]
    run.phase, run.phase_iteration = event.phase, event.iteration
    run.phase_done, run.phase_total, run.phase_unit = event.done, event.total, event.unit
    run.tokens_per_second, run.eta_seconds = event.tokens_per_second, event.eta_seconds
    run.eta_low_seconds, run.eta_high_seconds = event.eta_low_seconds, event.eta_high_seconds
    run.phase_progress = event.model_dump(include={"share", "iteration_shares", "update"}, exclude_none=True)


def _checkpoints(run: Run, events: Sequence[journal.CheckpointSaved | journal.CheckpointRemoved]) -> None:
    """Record which checkpoints were saved or removed, unless the run's files are elsewhere."""
    for event in events:
        if isinstance(event, journal.CheckpointRemoved):
            Checkpoint.objects.filter(run=run, iteration=event.iteration).delete()
        elif not run.imported:
            Checkpoint.objects.update_or_create(
                run=run,
                iteration=event.iteration,
                defaults={"path": event.path, "bytes": event.bytes, "time": moment(event.time)},
            )


def _evaluations(run: Run, events: Sequence[journal.Evaluation]) -> None:
    for event in events:
        facts = event.model_dump(exclude={"type", "seq", "time", "iteration", "suite", "extra"})
        evaluation, _ = Evaluation.objects.update_or_create(
            run=run, iteration=event.iteration, suite=event.suite, defaults=facts | {"time": moment(event.time)}
        )
        record_evaluation(run, evaluation)


def _faults(run: Run, events: Sequence[journal.Faults]) -> None:
    for event in events:
        record_faults(run, event)
        run.faults = [fault.model_dump() for fault in event.present]


def _end(run: Run, events: Sequence[journal.RunFinished]) -> None:
    event = events[-1]
    run.iteration = max(run.iteration, event.iteration)
    run.end_reason, run.end_message, run.summary = event.reason, event.message, event.summary


def _each(store: Callable[[Run, Any], None]) -> Callable[[Run, Sequence[Any]], None]:
    """Return a function that stores events one after another."""

    def store_all(run: Run, events: Sequence[Any]) -> None:
        for event in events:
            store(run, event)

    return store_all


_STORES: tuple[tuple[type | UnionType, Callable[[Run, Sequence[Any]], None]], ...] = (
    (journal.Event, log_text.store),
    (journal.TrajectoryTokens, write_tokens),
    (journal.GroupsScored, _score),
    (journal.AttemptsUsed, _use),
    (journal.Metrics, _metrics),
    (journal.Alarm, _alarms),
    (journal.IterationTimeline, _timeline),
    (journal.Phase, _phase),
    (journal.Evaluation, _evaluations),
    (journal.Generalization, _each(record_matrix)),
    (journal.Faults, _faults),
    (journal.Rewound, _each(record_rewind)),
    (journal.SettingsChanged, _each(setting_changes.record_change)),
    (journal.CheckpointSaved | journal.CheckpointRemoved, _checkpoints),
    (journal.RunFinished, _end),
)
"""The events of a batch and the functions that store them, in this order: the log compares with the phase before the
batch, and a rewind undoes its alarm."""
