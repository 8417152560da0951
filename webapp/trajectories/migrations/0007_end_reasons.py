"""How each attempt ended, as a code, and the turn at which it was lost; 0008 fills them for earlier attempts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("trajectories", "0006_claims"),
    ]

    operations = [
        migrations.AddField(
            model_name="trajectory",
            name="lost_turn",
            field=models.PositiveIntegerField(help_text="Turn of lost_at, 0-based.", null=True),
        ),
        migrations.AddField(
            model_name="trajectory",
            name="end_reason",
            field=models.CharField(
                blank=True, default="", help_text="How it ended, a code of end_reasons.py; empty before.", max_length=24
            ),
        ),
    ]
