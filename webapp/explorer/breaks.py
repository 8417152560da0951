"""Boards at the break of trajectories: after the action that lost each, or else at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.utils.safestring import SafeString

from webapp.trajectories.models import Trajectory
from webapp.trajectories.positions import position_query
from webapp.trajectories.render.mini_board import fault_cells, mini_board
from webapp.trajectories.render.view import Cell

MAX_BOARD_LENGTH = 8_000
"""Maximum characters of JSON of a board in a list; grids of a few dozen cells have some hundred."""


@dataclass(frozen=True)
class Break:
    """The small board of a trajectory, if it has a grid, and the query string of that position in the player."""

    board: SafeString | None
    query: str


def breaks(items: Sequence[Trajectory]) -> dict[int, Break]:
    """Return the break of each trajectory by primary key, in one statement that reads one turn each."""
    boards: dict[int, tuple[Any, Any]] = {}
    if items:
        with connection.cursor() as cursor:
            cursor.execute(_BOARDS, [MAX_BOARD_LENGTH, MAX_BOARD_LENGTH, [item.pk for item in items]])
            boards = {pk: (_read(before), _read(after)) for pk, before, after in cursor.fetchall()}
    result = {}
    for item in items:
        before, after = boards.get(item.pk, (None, None))
        lost = item.lost_at
        query = position_query(lost["turn"], lost["action"]) if lost else ""
        faults = fault_cells(before, after) if lost else []
        result[item.pk] = Break(mini_board(after or before, faults), query)
    return result


@dataclass(frozen=True)
class TurnBoards:
    """Small boards before and after a turn; None if there is no grid."""

    before: SafeString | None
    after: SafeString | None


def turn_boards(trajectory: Trajectory, events: Sequence[Mapping[str, Any]], limit: int) -> list[TurnBoards]:
    """Return the boards of the first `limit` turns of a trajectory, from its turn events in order."""
    lost = trajectory.lost_at or {}
    result = []
    board: Mapping[str, Any] = trajectory.group.board
    for event in events[:limit]:
        before = event.get("board") or board
        faults: list[Cell] = []
        board = before
        for number, record in enumerate(event["actions"]):
            after = record.get("board") or board
            if (lost.get("turn"), lost.get("action")) == (event["turn"], number):
                faults = fault_cells(board, after)
            board = after
        result.append(TurnBoards(mini_board(before), mini_board(board, faults)))
    return result


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


_BOARDS = """
SELECT id, CASE WHEN length(before) <= %s THEN before END, CASE WHEN length(after) <= %s THEN after END FROM (
    SELECT t.id,
        coalesce(u.event #>> ARRAY['actions', CASE WHEN lost.action > 0 THEN (lost.action - 1)::text END, 'board'],
                 u.event ->> 'board') AS before,
        CASE WHEN lost.action IS NULL
             THEN jsonb_path_query_array(u.event, '$.actions[*].board') ->> -1
             ELSE u.event #>> ARRAY['actions', lost.action::text, 'board'] END AS after
    FROM trajectories_trajectory AS t
    CROSS JOIN LATERAL (SELECT (t.lost_at ->> 'action')::int AS action) AS lost
    JOIN trajectories_turn AS u ON u.trajectory_id = t.id AND u.number = coalesce(t.lost_turn, t.turn_count - 1)
    WHERE t.id = ANY(%s)
) AS boards
"""
