"""Evaluations of other trainers may state no number of turns and actions; earlier ones had 0 in their place.

Runs know after which iteration their attempt continues.
"""

from django.db import migrations, models

FORGET = """
UPDATE runs_evaluation AS evaluation
SET mean_turns = nullif(mean_turns, 0), mean_actions = nullif(mean_actions, 0)
FROM runs_run AS run
WHERE evaluation.run_id = run.id AND run.config ? 'recorded'
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("runs", "0020_echo_trap_of_other_trainers"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="continued_from",
            field=models.PositiveIntegerField(default=0, help_text="Finished iterations when the attempt began."),
        ),
        migrations.AlterField(
            model_name="evaluation",
            name="mean_turns",
            field=models.FloatField(
                null=True, help_text="null: not known, in runs of other trainers; likewise actions."
            ),
        ),
        migrations.AlterField(
            model_name="evaluation",
            name="mean_actions",
            field=models.FloatField(null=True),
        ),
        migrations.RunSQL(FORGET, migrations.RunSQL.noop, elidable=True),
    ]
