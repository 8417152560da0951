"""Further fields of a recorder, of groups and of ended attempts; those of turns are in their events."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("trajectories", "0010_kinds_of_earlier_claims"),
    ]

    operations = [
        migrations.AddField(
            model_name="group",
            name="extra",
            field=models.JSONField(help_text="Further fields that a recorder gave its start.", null=True),
        ),
        migrations.AddField(
            model_name="trajectory",
            name="extra",
            field=models.JSONField(help_text="Further fields that a recorder gave its end.", null=True),
        ),
    ]
