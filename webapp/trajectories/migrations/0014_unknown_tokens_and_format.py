"""Attempts of other trainers may have no number of tokens and no judged format; earlier ones had 0 and none broken.

Earlier attempts are changed in batches by primary key, each committed by itself. A migration that was broken off is
repeated.
"""

from typing import Any

from django.db import migrations, models

BATCH = 5_000
NEXT = "SELECT max(id) FROM (SELECT id FROM trajectories_trajectory WHERE id > %s ORDER BY id LIMIT %s) AS batch"
FORGET = """
UPDATE trajectories_trajectory AS played
SET token_count = nullif(token_count, 0), format_error = CASE WHEN format_error THEN true END
FROM runs_run AS run
WHERE played.run_id = run.id AND run.config ? 'recorded' AND played.id > %s AND played.id <= %s
    AND (played.token_count = 0 OR NOT played.format_error)
"""


def forget_what_was_not_sent(apps: Any, schema_editor: Any) -> None:
    """Batch by batch, from the first attempt to the last."""
    last = 0
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(NEXT, [last, BATCH])
            (until,) = cursor.fetchone()
            if until is None:
                return
            cursor.execute(FORGET, [last, until])
            last = until


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("runs", "0021_unknown_lengths"),
        ("trajectories", "0013_rewarded"),
    ]

    operations = [
        migrations.AlterField(
            model_name="trajectory",
            name="token_count",
            field=models.PositiveIntegerField(
                default=0, null=True, help_text="Sampled tokens; null: not known, in runs of other trainers."
            ),
        ),
        migrations.AlterField(
            model_name="trajectory",
            name="format_error",
            field=models.BooleanField(
                default=False,
                null=True,
                help_text="At least one turn broke the format; null: not judged, in runs of other trainers.",
            ),
        ),
        migrations.AlterField(
            model_name="turn",
            name="format_valid",
            field=models.BooleanField(null=True, help_text="null: not judged, in runs of other trainers."),
        ),
        migrations.RunPython(forget_what_was_not_sent, migrations.RunPython.noop, elidable=True),
    ]
