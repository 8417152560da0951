"""Whether an attempt has a reward at all: chats of other trainers may have none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("trajectories", "0012_unknown_success"),
    ]

    operations = [
        migrations.AddField(
            model_name="trajectory",
            name="rewarded",
            field=models.BooleanField(
                default=True, help_text="Whether a reward was recorded; without one the total is 0."
            ),
        ),
    ]
