"""Comparison of thoughts with states for turns whose journal has no claims, as in runs of other trainers."""

from __future__ import annotations

import json
from typing import Any

from django.db import connection, transaction
from pydantic import TypeAdapter

from envs import registry
from envs.base import Board
from envs.claims.kinds import known_kind
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.positions import START, positions
from webapp.trajectories.serialize import trajectory_data

CHUNK = 200
"""Trajectories of a transaction."""
_BOARD: TypeAdapter[Board] = TypeAdapter(Board)


def do_compare_thoughts(run: Run) -> int:
    """Add claims to the run's turns that have none, and their numbers to the trajectories. Returns how many turns.

    Environments that compare nothing and trajectories that are being played are left out. Turns that have claims stay
    as they are, so it can be repeated.
    """
    ended = run.trajectories.filter(finished_seq__isnull=False)  # the ingest changes the others
    wanted = ended.filter(true_claims__isnull=True, turn_count__gt=0).select_related("group")
    names = [
        name for name in wanted.values_list("group__environment", flat=True).distinct().order_by() if compares(name)
    ]
    wanted = wanted.filter(group__environment__in=names).order_by("pk")
    last = count = 0
    while page := list(wanted.filter(pk__gt=last)[:CHUNK]):
        last = page[-1].pk
        with transaction.atomic():
            count += sum(_compare(trajectory) for trajectory in page)
    return count


def compares(name: str) -> bool:
    """Whether an environment that is installed here compares thoughts with its states."""
    try:
        return registry.compares_thoughts(name)
    except ValueError:
        return False


def _compare(trajectory: Trajectory) -> int:
    data = trajectory_data(trajectory)
    boards = {step.turn: step.board for step in positions(data) if step.action == START}
    found: dict[int, list[dict[str, Any]]] = {}
    for turn in data["turns"]:
        if turn.get("claims") is not None:
            continue
        board = _BOARD.validate_python(turn.get("board") or boards[turn["turn"]])
        claims = registry.read_claims(trajectory.group.environment, turn["thought"], board)
        if claims is not None:
            found[turn["turn"]] = [claim.model_dump(exclude_none=True) for claim in claims]
    if found:
        rows = [{"number": number, "claims": claims} for number, claims in found.items()]
        with connection.cursor() as cursor:
            cursor.execute(_ADD_CLAIMS, [json.dumps(rows), trajectory.pk])
    listed = [claim for turn in data["turns"] for claim in found.get(turn["turn"], turn.get("claims")) or ()]
    true = sum(claim["true"] for claim in listed)
    kinds = sorted({known_kind(claim.get("kind")) for claim in listed if not claim["true"]})
    Trajectory.objects.filter(pk=trajectory.pk).update(
        true_claims=true, false_claims=len(listed) - true, false_claim_kinds=kinds
    )
    return len(found)


_ADD_CLAIMS = """
    UPDATE trajectories_turn AS t SET event = jsonb_set(t.event, '{claims}', n.claims)
    FROM jsonb_to_recordset(%s::jsonb) AS n (number int, claims jsonb)
    WHERE t.trajectory_id = %s AND t.number = n.number
"""
