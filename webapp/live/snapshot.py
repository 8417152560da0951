"""Snapshot of a run at its present seq, as plain data; static/js/live/reducer.js applies later events to it.

Keep both in step: `snapshot + events = the snapshot reloaded`. The shape:

    seq, rebuilds              cursor of the websocket
    attempt, state             state as pages name it (Run.shown_state)
    run                        slug title iterations iteration (finished; below 0 in a warm-up) warmup_steps
                               warmup_share (of the run, expected) group_size groups environment device started_at
                               (ISO or null) recorded (by another trainer)
    phase                      phase iteration done total unit tokens_per_second eta_seconds eta_low_seconds
                               eta_high_seconds share iteration_shares update; null before the first
    wall                       the newest wave of groups, train or eval; null before the first
                               iteration split groups: [group mean std kept
                                   members: [id slug turns status format_error]]
    training_use               iteration counts ({training use: attempts}); null before the first update
    curves                     {name: [[iteration, value], …]} for CURVES; long ones in buckets: lowest, highest, last
    evaluations                iteration suite success success_low success_high prompts final
    alarm                      state message iteration; null before the first alarm
    faults                     the present ones, as in the journal's newest faults event
    alarms                     the 12 newest changes of state, oldest first: state message iteration undone (rewound)
    rewinds                    the 6 newest, oldest first: number from_iteration to_iteration changes
    changes                    of settings that took effect, the 50 last: request iteration changes rewind_from
    evidence                   {signal: [[iteration, value, limit], …]} of the newest 120 iterations
                               (trap_signals.py); of another trainer's run the newest 120 of each signal
    stage                      the trajectory played last: id slug group member board hint turns success end
                               total_reward lost_at recorded, if true (turns as in the journal, without type, seq,
                               time, trajectory)
    notices                    the 20 newest, oldest first: level message; empty outside the team
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.models import Count

from webapp.runs import curves, echo_trap, setting_changes
from webapp.runs.models import Run
from webapp.trajectories.models import Group, Trajectory
from webapp.trajectories.serialize import trajectory_data

CURVES = (
    "reward/mean",
    "reward/in_group_std",
    "success/rate",
    "entropy/mean",
    "policy/grad_norm",
    "sft/loss",
    "sft/heldout_loss",
)
NOTICES = 20
CHANGES = 50


@contextmanager
def one_moment() -> Iterator[None]:
    """Let all queries inside see the database at the same instant, unless the caller already opened a transaction."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def rollout_shape(run: Run) -> tuple[int, int]:
    """Return the planned number of groups of a rollout, and their size.

    A run of another trainer has no plan, so its newest wave is counted, with two queries.
    """
    if run.recorded is None:
        rollout = run.config.get("rollout", {})
        return rollout.get("groups", 0), rollout.get("group_size", 0)
    groups = Group.objects.filter(run=run, superseded=False)
    newest = groups.only("iteration", "split", "suite").order_by("-pk").first()
    if newest is None:
        return 0, 0
    wave = groups.filter(iteration=newest.iteration, split=newest.split, suite=newest.suite)
    sizes = wave.annotate(size=Count("trajectories")).values_list("size", flat=True)
    return len(sizes), max(sizes, default=0)


def heading(run: Run) -> dict[str, Any]:
    """Return run, phase and current alarm in the snapshot's shape, for the tabs other than the live page.

    The same script applies later events to it.
    """
    groups, group_size = rollout_shape(run)
    length = run.length
    return {
        "seq": run.seq,
        "rebuilds": run.rebuilds,
        "attempt": run.attempt,
        "state": run.shown_state,
        "run": {
            "slug": run.slug,
            "title": run.title,
            "iterations": length.iterations,
            "iteration": length.iteration,
            "warmup_steps": length.warmup_steps,
            "warmup_share": length.warmup_share,
            "group_size": group_size,
            "groups": groups,
            "environment": run.environment,
            "device": run.device,
            "started_at": run.started_at.isoformat() if run.started_at else None,
            "recorded": run.recorded is not None,
        },
        "phase": run.phase_facts,
        **_NOT_DRAWN,
        "alarm": run.alarm,
        "faults": run.faults,
    }


_NOT_DRAWN: dict[str, Any] = {
    "wall": None,
    "training_use": None,
    "curves": {},
    "evaluations": [],
    "alarms": [],
    "rewinds": [],
    "changes": [],
    "evidence": {},
    "stage": None,
    "notices": [],
}


def snapshot(run: Run, *, inside: bool = True) -> dict[str, Any]:
    """Return the snapshot of the run at its present seq; without notices for visitors who are not `inside` the team."""
    with one_moment():
        run = Run.objects.with_alarm().defer("log_tail", "summary").get(pk=run.pk)
        return heading(run) | {
            "wall": _wall(run),
            "training_use": run.training_use,
            "curves": curves.by_iteration(run.pk, CURVES, run.iteration),
            "evaluations": list(
                run.evaluations.order_by("time", "iteration").values(
                    "iteration", "suite", "success", "success_low", "success_high", "prompts", "final"
                )
            ),
            **echo_trap.history(run),
            "changes": setting_changes.marks(run)[-CHANGES:],
            "evidence": echo_trap.evidence(run),
            "stage": _stage(run),
            "notices": _notices(run) if inside else [],
        }


def _wall(run: Run) -> dict[str, Any] | None:
    newest = Group.objects.filter(run=run, superseded=False).only("iteration", "split", "suite").order_by("-pk").first()
    if newest is None:
        return None
    wave = {"run": run, "iteration": newest.iteration, "split": newest.split}
    groups = Group.objects.filter(**wave, suite=newest.suite, superseded=False).order_by("number")
    groups = groups.only("number", "mean", "std", "kept")
    members = defaultdict(list)
    for group, key, slug, turns, status, broken in (
        Trajectory.objects.current()
        .filter(**wave, group__suite=newest.suite)
        .order_by("member")
        .values_list("group_id", "key", "slug", "turn_count", "status", "format_error")
    ):
        members[group].append({"id": key, "slug": slug, "turns": turns, "status": status, "format_error": broken})
    return {
        "iteration": newest.iteration,
        "split": newest.split,
        "groups": [
            {
                "group": group.number,
                "mean": group.mean,
                "std": group.std,
                "kept": group.kept,
                "members": members[group.pk],
            }
            for group in groups
        ],
    }


def _notices(run: Run) -> list[dict[str, Any]]:
    newest = run.notices.exclude(message="").order_by("-seq").values_list("level", "message")[:NOTICES]
    return [{"level": level, "message": message} for level, message in newest][::-1]


def _stage(run: Run) -> dict[str, Any] | None:
    """Return the trajectory being played, or else the newest that ended."""
    current = run.trajectories.filter(superseded=False).select_related("group")
    playing = current.filter(status=Trajectory.Status.PLAYING).order_by("-last_seq")
    newest = playing.first() or current.filter(finished_seq__isnull=False).order_by("-finished_seq").first()
    return None if newest is None else trajectory_data(newest)
