"""Conversion of database rows to the API's schemas."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from trainer.config.files import ordered_dump
from webapp.api import schemas
from webapp.runs.models import Run
from webapp.runs.queue.order import queue_positions
from webapp.trajectories.models import ShareLink, Trajectory


def run_out(request: HttpRequest, run: Run) -> schemas.RunOut:
    """A run in a list; select its team and author with it."""
    return schemas.RunOut.model_validate(_run(request, run))


def run_detail(request: HttpRequest, run: Run) -> schemas.RunDetail:
    """A run with its configuration and the state of its journal."""
    return schemas.RunDetail.model_validate(
        _run(request, run)
        | {"config": ordered_dump(run.config), "journal": journal_out(run), "waiting": waiting_out(run)}
    )


def waiting_out(run: Run) -> schemas.WaitingOut | None:
    if run.state != Run.State.QUEUED:
        return None
    position = queue_positions(timezone.now()).get(run.pk)
    if position is None:
        return None
    return schemas.WaitingOut(position=position.position, message=position.words, possible=position.possible)


def journal_out(run: Run) -> schemas.JournalOut:
    sent = getattr(run, "sent_journal", None)
    return schemas.JournalOut(
        offset=run.journal_offset, seq=run.seq, growing=bool(sent and sent.growing), problem=run.journal_error
    )


def _run(request: HttpRequest, run: Run) -> dict[str, Any]:
    return {
        "slug": run.slug,
        "url": request.build_absolute_uri(reverse("run", args=[run.slug])),
        "title": run.title,
        "team": {"slug": run.team.slug, "name": run.team.name},
        "author": run.author.username if run.author else None,
        "environment": run.environment,
        "preset": run.preset,
        "tags": run.tags,
        "visibility": run.visibility,
        "state": run.state,
        "requested": run.requested,
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
        "failure": run.failure,
        "summary": run.summary,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
    }


def share_out(request: HttpRequest, link: ShareLink) -> schemas.ShareOut:
    """A share link; select its trajectory and author with it."""
    return schemas.ShareOut(
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


def trajectory_out(request: HttpRequest, run: str, trajectory: Trajectory) -> schemas.TrajectoryOut:
    """A trajectory in a list of the run with that slug; select its group with it."""
    facts = {
        "slug": trajectory.slug,
        "url": request.build_absolute_uri(reverse("trajectory", args=[trajectory.slug])),
        "run": run,
        "key": trajectory.key,
        "iteration": trajectory.iteration,
        "split": trajectory.split,
        "suite": trajectory.group.suite,
        "environment": trajectory.group.environment,
        "group": trajectory.group.number,
        "member": trajectory.member,
        "status": trajectory.status,
        "end": trajectory.end,
        "total_reward": trajectory.total_reward,
        "turns": trajectory.turn_count,
        "actions": trajectory.action_count,
        "tokens": trajectory.token_count,
        "format_error": trajectory.format_error,
        "kept": trajectory.group.kept,
        "lost_at": trajectory.lost_at,
        "error": trajectory.error,
    }
    return schemas.TrajectoryOut.model_validate(facts)
