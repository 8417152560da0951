"""Fills the kinds of false claims of attempts played before 0009, and adds the indexes of its columns.

In batches by primary key, each committed by itself, and indexes concurrently: no attempt is locked for long, and ingest
and pages go on. A migration that was broken off is repeated: attempts with kinds are left as they are. The journal's
claims had no kind, but the words of what is true instead follow from it.
"""

from typing import Any

import django.contrib.postgres.indexes
from django.db import migrations, models

BATCH = 2_000
NEXT = "SELECT max(id) FROM (SELECT id FROM trajectories_trajectory WHERE id > %s ORDER BY id LIMIT %s) AS batch"
KINDS = r"""
UPDATE trajectories_trajectory AS played SET false_claim_kinds = found.kinds
FROM (
    SELECT trajectory_id, array_agg(DISTINCT kind COLLATE "C" ORDER BY kind COLLATE "C") AS kinds
    FROM (
        SELECT turn.trajectory_id, CASE
            WHEN actual ~ '^(the|there is no) [a-z]+.*; (the|there is no) [a-z]+' THEN 'direction'
            WHEN actual ~ '^(the player (is|are) at row|there is no player)' THEN 'own_position'
            WHEN actual ~ '^(the (box|boxes) (is|are) at row|there is no box)' THEN 'box_position'
            WHEN actual ~ '^(the targets? (is|are) at row|there is no target)' THEN 'target_position'
            WHEN actual ~ '^(the goals? (is|are) at row|there is no goal)' THEN 'goal_position'
            WHEN actual ~ '^(the holes? (is|are) at row|there is no hole)' THEN 'hole_position'
            WHEN actual ~ '^(the walls? (is|are) at row|walls do not meet there|no wall is beside it)' THEN 'wall'
            WHEN actual ~ '^that cell is' AND said ~* -- a place of walls is corrected in the words of its cell
                '^\W*((there''s|there\W+(is|are)|i\W+(see|have)|we\W+have)\W+)?((the|a|an|some|one|\d+)\W+)?walls?\M'
                THEN 'wall'
            WHEN actual ~ '^that cell is' THEN 'neighbour'
            WHEN actual ~ '^\d+ of \d+ boxes on targets$' THEN 'boxes_on_targets'
            WHEN actual ~ '^there are: ' THEN 'count'
            WHEN actual ~ '^the board has \d+ rows' THEN 'size'
            WHEN actual ~ '^(a way leads to the goal|holes block every way)' THEN 'way'
            WHEN actual ~ '^the target is -?\d' OR actual ~ '^the numbers are \d' OR actual ~ '^\d+ numbers$' THEN 'task'
            WHEN actual ~ '^-?\d+ (is|is greater than|is less than) -?\d+$' THEN 'comparison'
            WHEN actual ~ '^[-+*/×·÷x() \d\\a-z]+ = ' OR actual ~ '^\d+$' THEN 'result'
            WHEN actual ~ '^the request allows' THEN 'request'
            WHEN actual ~ '^this is the \w+ page$' THEN 'page'
            WHEN actual ~ '^the price is' THEN 'price'
            WHEN actual ~ '^the rating is' THEN 'rating'
            WHEN actual ~ '^(result \d+ is |\d+ results$|this is page \d)' THEN 'search_results'
            WHEN actual ~ '^there are \d+ arms$' OR actual ~ ' is number \d+$' THEN 'arms'
            WHEN actual ~ ' has \d+ pulls?' OR actual ~ '^\d+ pulls? so far$' THEN 'pulls'
            WHEN actual ~ ' paid \S+ (in all|last time|on average)$' THEN 'payment'
            WHEN actual ~ '^(nothing is chosen$|[^;]+: )' THEN 'options'
            ELSE 'other' END AS kind
        FROM (
            SELECT turn.trajectory_id, claim->>'actual' AS actual,
                substr(turn.event->>'thought', (claim->>'start')::int + 1,
                    greatest(0, (claim->>'end')::int - (claim->>'start')::int)) AS said
            FROM trajectories_trajectory AS attempt
            JOIN trajectories_turn AS turn ON turn.trajectory_id = attempt.id
            CROSS JOIN jsonb_array_elements(
                CASE jsonb_typeof(turn.event->'claims') WHEN 'array' THEN turn.event->'claims' ELSE '[]' END
            ) AS claim
            WHERE attempt.id > %s AND attempt.id <= %s AND attempt.false_claims > 0
                AND attempt.false_claim_kinds = '{}' AND claim->'true' = 'false'
        ) AS turn
    ) AS kinds
    GROUP BY trajectory_id
) AS found
WHERE played.id = found.trajectory_id
"""


def fill_kinds(apps: Any, schema_editor: Any) -> None:
    """Batch by batch, from the first attempt to the last."""
    last = 0
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(NEXT, [last, BATCH])
            (until,) = cursor.fetchone()
            if until is None:
                return
            cursor.execute(KINDS, [last, until])
            last = until


def added_index(name: str, definition: str, index: models.Index) -> migrations.RunSQL:
    """An index made without blocking writes; what a broken-off migration left of it is replaced."""
    return migrations.RunSQL(
        [
            f"DROP INDEX CONCURRENTLY IF EXISTS {name}",
            f"CREATE INDEX CONCURRENTLY {name} ON trajectories_trajectory {definition}",
        ],
        [f"DROP INDEX CONCURRENTLY IF EXISTS {name}"],
        state_operations=[migrations.AddIndex(model_name="trajectory", index=index)],
    )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("trajectories", "0009_marks_and_claim_kinds"),
    ]

    operations = [
        migrations.RunPython(fill_kinds, migrations.RunPython.noop, elidable=True),
        added_index(
            "trajectory_unjudged",
            "(id DESC) WHERE finished_seq IS NOT NULL AND worst_mark IS NULL",
            models.Index(
                fields=["-id"],
                name="trajectory_unjudged",
                condition=models.Q(worst_mark__isnull=True, finished_seq__isnull=False),
            ),
        ),
        added_index(
            "trajectory_false_kinds",
            "USING gin (false_claim_kinds) WHERE NOT (false_claim_kinds = '{}'::varchar(24)[])",
            django.contrib.postgres.indexes.GinIndex(
                fields=["false_claim_kinds"],
                name="trajectory_false_kinds",
                condition=~models.Q(false_claim_kinds=[]),
            ),
        ),
    ]
