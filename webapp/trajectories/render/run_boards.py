"""One small board per run for the list of runs: an attempt in progress, or one of the last evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from django.db import connection
from django.utils.safestring import SafeString

from webapp.trajectories.models import Trajectory
from webapp.trajectories.render.mini_board import mini_board

MAX_BOARD_LENGTH = 8_000
"""Maximum characters of JSON of a board to draw; grids of a few dozen cells have some hundred."""
_OUTCOMES = {
    Trajectory.Status.PLAYING: "in progress",
    Trajectory.Status.SUCCESS: "solved",
    Trajectory.Status.FAILED: "not solved",
    Trajectory.Status.INTERRUPTED: "interrupted",
    Trajectory.Status.UNKNOWN: "ended",
}


@dataclass(frozen=True)
class RunBoard:
    """The picture of a run: HTML in the colours of the theme, and its text alternative."""

    picture: SafeString
    description: str


def run_boards(runs: Iterable[tuple[int, bool]]) -> dict[int, RunBoard]:
    """Return the board of each run that has attempts, by primary key, in one statement.

    Args:
        runs: primary key, and True if the run is being trained. Then the attempt in progress is shown, or else the one
            that ended last; otherwise the first attempt of the last evaluation, or else the one that ended last.
    """
    requested = list(runs)
    if not requested:
        return {}
    with connection.cursor() as cursor:
        keys, trained = [pk for pk, _ in requested], [being_trained for _, being_trained in requested]
        cursor.execute(_BOARDS, (MAX_BOARD_LENGTH, MAX_BOARD_LENGTH, keys, trained))
        rows = cursor.fetchall()
    result = {}
    for pk, environment, status, split, iteration, board in rows:
        picture = board and _picture(board)
        if picture:
            result[pk] = RunBoard(picture, _describe(environment, status, split, iteration))
    return result


def _describe(environment: str, status: str, split: str, iteration: int) -> str:
    where = f"evaluation after iteration {iteration}" if split == "eval" else f"iteration {iteration}"
    if iteration < 0:
        where = "evaluation in the warm-up"
    return f"{environment}, {where}: attempt {_OUTCOMES.get(Trajectory.Status(status), 'waiting')}"


@lru_cache(maxsize=2048)
def _picture(text: str) -> SafeString | None:
    """Draw a board from its JSON. Cached by content, since most rows are the same at the next refresh of the list.

    None for a board without a grid, whose text would be illegible.
    """
    return mini_board(json.loads(text))


_BOARDS = """
SELECT asked.run, grp.environment, t.status, t.split, t.iteration,
    CASE WHEN length(turn.board) <= %s THEN turn.board
         WHEN turn.board IS NULL AND length(grp.board::text) <= %s THEN grp.board::text END
FROM unnest(%s::bigint[], %s::boolean[]) AS asked(run, trained)
CROSS JOIN LATERAL (
    SELECT CASE WHEN asked.trained THEN coalesce(
        (SELECT id FROM trajectories_trajectory WHERE run_id = asked.run AND status = 'playing' AND NOT superseded
            AND split <> 'branch' ORDER BY last_seq DESC LIMIT 1),
        (SELECT id FROM trajectories_trajectory WHERE run_id = asked.run AND finished_seq IS NOT NULL
            AND NOT superseded AND split <> 'branch' ORDER BY finished_seq DESC LIMIT 1)
    ) ELSE coalesce(
        (SELECT id FROM trajectories_trajectory WHERE run_id = asked.run AND split = 'eval' AND NOT superseded
            AND finished_seq IS NOT NULL
            AND iteration = (SELECT max(iteration) FROM runs_evaluation WHERE run_id = asked.run)
            ORDER BY id + 0 LIMIT 1),
        (SELECT id FROM trajectories_trajectory WHERE run_id = asked.run AND finished_seq IS NOT NULL
            AND NOT superseded AND split <> 'branch' ORDER BY finished_seq DESC LIMIT 1)
    ) END AS id
) AS chosen
JOIN trajectories_trajectory AS t ON t.id = chosen.id
JOIN trajectories_group AS grp ON grp.id = t.group_id
LEFT JOIN LATERAL (
    SELECT jsonb_path_query_array(event, '$.actions[*].board') ->> -1 AS board FROM trajectories_turn
    WHERE trajectory_id = t.id AND jsonb_path_exists(event, '$.actions[*].board ? (@ != null)')
    ORDER BY number DESC LIMIT 1
) AS turn ON true
"""
"""The attempt of each run and its latest board: after its last executed action, else the initial one.

`id + 0` keeps the planner from walking the primary key, past all attempts of other runs.
"""
