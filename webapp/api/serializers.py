"""Conversion of database rows to the API's schemas."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from trainer.config.files import ordered_dump
from webapp.api.auth import caller
from webapp.api.schemas.run_schemas import JournalOut, RunDetail, RunOut, WaitingOut
from webapp.api.schemas.trajectory_schemas import ShareOut, TrajectoryOut
from webapp.runs.models import Run
from webapp.runs.public_texts import failure_text, problem_text
from webapp.runs.queue.order import queue_positions
from webapp.teams.access import role_in_team
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.serialize import worst_mark_name


def run_out(request: HttpRequest, run: Run) -> RunOut:
    """Return a run in a list; select its team and author with it."""
    return RunOut.model_validate(_run(request, run))


def run_detail(request: HttpRequest, run: Run) -> RunDetail:
    """Return a run with its configuration and the state of its journal."""
    return RunDetail.model_validate(
        _run(request, run)
        | {"config": ordered_dump(run.config), "journal": journal_out(request, run), "waiting": waiting_out(run)}
    )


def is_inside(request: HttpRequest, run: Run) -> bool:
    """Return True if the caller is in the run's team: others read a public run without the team's texts."""
    return role_in_team(caller(request).user, run.team_id) is not None


def waiting_out(run: Run) -> WaitingOut | None:
    if run.state != Run.State.QUEUED:
        return None
    position = queue_positions(timezone.now()).get(run.pk)
    if position is None:
        return None
    return WaitingOut(position=position.position, message=position.text, possible=position.possible)


def journal_out(request: HttpRequest, run: Run, left_out: list[str] | None = None) -> JournalOut:
    """Return the import status of a run's journal, without details outside its team."""
    sent = getattr(run, "sent_journal", None)
    problem = run.journal_error and problem_text(run.journal_error, inside=is_inside(request, run))
    return JournalOut(
        offset=run.journal_offset,
        seq=run.seq,
        growing=bool(sent and sent.growing),
        problem=problem,
        left_out=left_out or [],
    )


def _run(request: HttpRequest, run: Run) -> dict[str, Any]:
    inside = is_inside(request, run)
    return {
        "slug": run.slug,
        "url": request.build_absolute_uri(reverse("run", args=[run.slug])),
        "title": run.title,
        "team": {"slug": run.team.slug, "name": run.team.name} if inside else None,
        "author": run.author.username if run.author and inside else None,
        "environment": run.environment,
        "preset": run.preset,
        "tags": run.tags,
        "group": run.group,
        "notes": run.notes,
        "archived_at": run.archived_at,
        "visibility": run.visibility,
        "state": run.state,
        "requested": run.requested,
        "condition": run.condition and {"state": run.condition.state, "since": run.condition.since},
        "imported": run.imported,
        "iterations": run.iterations,
        "iteration": run.iteration,
        "attempt": run.attempt,
        "phase": run.phase_facts,
        "queue": run.queue,
        "priority": Run.Priority(run.priority).name.lower(),
        "gpus": run.gpus,
        "device": run.device,
        "parameters": run.parameters,
        "failure": failure_text(run.failure, inside=not run.failure or is_inside(request, run)),
        "summary": run.summary,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
    }


def share_out(request: HttpRequest, link: ShareLink) -> ShareOut:
    """Return a share link; select its trajectory and author with it."""
    return ShareOut(
        token=link.token,
        url=request.build_absolute_uri(reverse("shared", args=[link.token])),
        trajectory=link.trajectory.slug,
        author=link.author.username if link.author else None,
        turn=link.turn,
        action=link.action,
        indexable=link.indexable,
        views=link.views,
        created_at=link.created_at,
        expires_at=link.expires_at,
        revoked_at=link.revoked_at,
    )


def trajectory_out(request: HttpRequest, run: Run, trajectory: Trajectory) -> TrajectoryOut:
    """Return a trajectory in a list of that run; select its group with it."""
    facts = {
        "slug": trajectory.slug,
        "url": request.build_absolute_uri(reverse("trajectory", args=[trajectory.slug])),
        "run": run.slug,
        "key": trajectory.key,
        "iteration": trajectory.iteration,
        "split": trajectory.split,
        "suite": trajectory.group.suite,
        "environment": trajectory.group.environment,
        "group": trajectory.group.number,
        "member": trajectory.member,
        "status": trajectory.status,
        "end": trajectory.end,
        "end_reason": trajectory.end_reason,
        "total_reward": trajectory.reward,
        "turns": trajectory.turn_count,
        "actions": trajectory.action_count,
        "tokens": trajectory.token_count,
        "format_error": trajectory.format_error,
        "true_claims": trajectory.true_claims,
        "false_claims": trajectory.false_claims,
        "false_claim_kinds": trajectory.false_claim_kinds,
        "worst_mark": worst_mark_name(trajectory),
        "first_mistake_turn": trajectory.first_mistake_turn,
        "commentary": trajectory.commentary,
        "kept": trajectory.group.kept,
        "training_use": trajectory.training_use,
        "mismatch": trajectory.mismatch,
        "lost_at": trajectory.lost_at,
        "error": failure_text(trajectory.error, inside=not trajectory.error or is_inside(request, run)),
    }
    return TrajectoryOut.model_validate(facts)
