"""Numbers of true and false claims in the thoughts of a trajectory."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("trajectories", "0005_interrupted_attempts"),
    ]

    operations = [
        migrations.AddField(
            model_name="trajectory",
            name="false_claims",
            field=models.PositiveIntegerField(help_text="Statements of its thoughts that do not hold.", null=True),
        ),
        migrations.AddField(
            model_name="trajectory",
            name="true_claims",
            field=models.PositiveIntegerField(
                help_text="Statements of its thoughts that hold; null where thoughts were not compared with the state.",
                null=True,
            ),
        ),
    ]
