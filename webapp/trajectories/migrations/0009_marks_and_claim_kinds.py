"""Kinds of the false claims of a trajectory, its worst mark, and the marks of each turn; 0010 fills the kinds.

Marks of earlier attempts are judged in the background, as those of new ones (webapp/trajectories/marking.py).
"""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("trajectories", "0008_codes_of_earlier_attempts"),
    ]

    operations = [
        migrations.AddField(
            model_name="trajectory",
            name="false_claim_kinds",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=24),
                default=list,
                help_text="What its false claims are about, names of envs.claims.kinds in alphabetical order.",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="trajectory",
            name="worst_mark",
            field=models.SmallIntegerField(
                choices=[(-1, "Not judged"), (0, "None"), (1, "Inaccuracy"), (2, "Mistake"), (3, "Blunder")],
                help_text="The worst mark of its actions; null until it has been judged, after its end.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="trajectory",
            name="first_mistake_turn",
            field=models.PositiveIntegerField(
                help_text="Turn of its first mistake or blunder, 0-based; null where there is none.", null=True
            ),
        ),
        migrations.AddField(
            model_name="turn",
            name="marks",
            field=models.JSONField(
                help_text="Marks of its actions, once judged; null where there are none.", null=True
            ),
        ),
    ]
