import django.db.models.deletion
import webapp.core.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("branching", "0001_branches"),
        ("runs", "0004_rewind_requests"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="EvaluationQuestion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Waiting for a worker"),
                            ("running", "Being computed"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("requested_at", models.DateTimeField()),
                (
                    "lease",
                    models.CharField(blank=True, help_text="Token of the worker that carries it out.", max_length=36),
                ),
                ("seen_at", models.DateTimeField(help_text="Last report of that worker.", null=True)),
                ("attempts", models.PositiveIntegerField(default=0, help_text="Starts; a lost worker costs one.")),
                ("error", models.TextField(blank=True, help_text="Why it failed, for people.")),
                ("slug", models.CharField(default=webapp.core.ids.slug, editable=False, max_length=24, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("corrections", "Correct what it misread"),
                            ("thoughts", "Do the thoughts matter?"),
                        ],
                        max_length=12,
                    ),
                ),
                ("suite", models.CharField(max_length=100)),
                ("iteration", models.IntegerField(help_text="Finished iterations at the evaluation.")),
                (
                    "samples",
                    models.PositiveIntegerField(
                        help_text="Continuations of each kind, or next actions after each thought."
                    ),
                ),
                ("most_attempts", models.PositiveIntegerField(help_text="Of more attempts, so many are drawn.")),
                (
                    "used_checkpoint",
                    models.IntegerField(help_text="Finished iterations of the weights that answered.", null=True),
                ),
                ("encoded", models.BooleanField(help_text="Whether token ids come from the recorded text.", null=True)),
                ("done", models.PositiveIntegerField(default=0, help_text="Finished continuations, or turns.")),
                ("total", models.PositiveIntegerField(default=0, help_text="0: not known yet.")),
                (
                    "result",
                    models.JSONField(help_text="The sampler's last answer (trainer/journal/branches.py).", null=True),
                ),
                ("answered_at", models.DateTimeField(null=True)),
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
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="evaluation_questions",
                        to="runs.run",
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
                "indexes": [
                    models.Index(fields=["state", "requested_at"], name="evaluation_question_queue"),
                    models.Index(fields=["run", "requested_at"], name="evaluation_questions"),
                ],
            },
        ),
    ]
