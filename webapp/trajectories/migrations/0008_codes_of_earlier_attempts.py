"""Fills the code and the turn of attempts that ended before 0007, from what is stored of them.

In batches by primary key, each committed by itself: no attempt is locked for long, and ingest and pages go on. A
migration that was broken off is repeated: attempts with a code are left as they are.
"""

from typing import Any

from django.db import migrations

BATCH = 5_000
NEXT = "SELECT max(id) FROM (SELECT id FROM trajectories_trajectory WHERE id > %s ORDER BY id LIMIT %s) AS batch"
CODES = """
UPDATE trajectories_trajectory SET
    lost_turn = (lost_at->>'turn')::int,
    end_reason = CASE
        WHEN status = 'success' THEN 'solved'
        WHEN status = 'interrupted' THEN 'interrupted'
        WHEN error <> '' THEN 'environment_error'
        WHEN lost_at IS NOT NULL THEN CASE
            WHEN lost_at->>'reason' ~ '^(the|a) box is in a corner' THEN 'box_corner'
            WHEN lost_at->>'reason' ~ '^(the|a) box is against a wall' THEN 'box_wall'
            WHEN lost_at->>'reason' ~ '^(two )?boxes block each other' THEN 'boxes_jammed'
            WHEN lost_at->>'reason' ~ '^(the|a) box can no longer be pushed to' THEN 'box_stranded'
            WHEN lost_at->>'reason' ~ '^too many boxes can only be pushed' THEN 'targets_shared'
            WHEN lost_at->>'reason' ~ '^no sequence of pushes reaches' THEN 'unsolvable'
            WHEN lost_at->>'reason' ~ '^the player is in a hole' THEN 'hole'
            WHEN lost_at->>'reason' ~ '^no way leads to the goal' THEN 'no_way'
            WHEN lost_at->>'reason' ~ '^the low arm was pulled' THEN 'low_arm'
            WHEN lost_at->>'reason' ~ '^the answer does not equal the target' THEN 'wrong_answer'
            WHEN lost_at->>'reason' ~ '^no equation of these numbers' THEN 'no_equation'
            WHEN lost_at->>'reason' ~ '^no tries are left' THEN 'no_tries'
            WHEN lost_at->>'reason' ~ '^the purchase matches the request only' THEN 'wrong_purchase'
            ELSE 'lost' END
        WHEN "end" = 'turns' THEN 'out_of_turns'
        WHEN "end" = 'actions' THEN 'out_of_actions'
        WHEN "end" = 'truncated' THEN 'cut_off'
        ELSE 'ended' END
WHERE id > %s AND id <= %s AND end_reason = '' AND status IN ('success', 'failed', 'interrupted')
"""


def fill_codes(apps: Any, schema_editor: Any) -> None:
    """Batch by batch, from the first attempt to the last."""
    last = 0
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(NEXT, [last, BATCH])
            (until,) = cursor.fetchone()
            if until is None:
                return
            cursor.execute(CODES, [last, until])
            last = until


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("trajectories", "0007_end_reasons"),
    ]

    operations = [
        migrations.RunPython(fill_codes, migrations.RunPython.noop, elidable=True),
    ]
