"""Attempts of other trainers that ended without a statement of success. Changes no row."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("trajectories", "0011_extra"),
    ]

    operations = [
        migrations.AlterField(
            model_name="trajectory",
            name="status",
            field=models.CharField(
                choices=[
                    ("waiting", "Waiting"),
                    ("playing", "Playing"),
                    ("success", "Success"),
                    ("failed", "Failed"),
                    ("interrupted", "Interrupted"),
                    ("unknown", "Ended, success not known"),
                ],
                default="waiting",
                max_length=11,
            ),
        ),
    ]
