import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0003_changes_and_timeline"),
        ("trajectories", "0003_trajectory_mismatch"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="tokenarrays",
            name="computed_from",
            field=models.IntegerField(
                help_text="Finished iterations of the weights from which they were computed; null: the trainer recorded them.",
                null=True,
            ),
        ),
        migrations.CreateModel(
            name="TokenComputation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Waiting for a worker"),
                            ("running", "Being computed"),
                            ("failed", "Failed"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("requested_at", models.DateTimeField()),
                (
                    "lease",
                    models.CharField(blank=True, help_text="Token of the worker that computes them.", max_length=36),
                ),
                ("seen_at", models.DateTimeField(help_text="Last report of that worker.", null=True)),
                ("attempts", models.PositiveIntegerField(default=0, help_text="Starts; a lost worker costs one.")),
                ("error", models.TextField(blank=True, help_text="Why it failed, for people.")),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "trajectory",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="token_computation",
                        to="trajectories.trajectory",
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.worker"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["state", "requested_at"], name="token_computation_queue")],
            },
        ),
    ]
