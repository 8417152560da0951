"""Schema of the app in one migration; databases that applied the replaced ones keep them."""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.text
import webapp.core.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("trajectories", "0001_initial"),
        ("trajectories", "0002_newest_group"),
        ("trajectories", "0003_sharing_and_tokens"),
        ("trajectories", "0004_explorer"),
    ]

    dependencies = [
        ("runs", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Group",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("iteration", models.PositiveIntegerField()),
                ("split", models.CharField(max_length=5)),
                ("suite", models.CharField(blank=True, max_length=100)),
                ("number", models.PositiveIntegerField(help_text="0-based within iteration, split and suite.")),
                (
                    "superseded",
                    models.BooleanField(default=False, help_text="Kept for its shares; a later attempt replaced it."),
                ),
                ("environment", models.CharField(max_length=100)),
                ("seed", models.BigIntegerField()),
                ("prompt", models.TextField()),
                ("board", models.JSONField()),
                ("hint", models.JSONField(null=True)),
                ("mean", models.FloatField(null=True)),
                ("std", models.FloatField(null=True)),
                ("kept", models.BooleanField(help_text="Whether the filter let the update learn from it.", null=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="groups", to="runs.run"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Trajectory",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.CharField(default=webapp.core.ids.slug, editable=False, max_length=24, unique=True)),
                ("attempt", models.PositiveIntegerField()),
                ("key", models.CharField(help_text="Its id in the journal.", max_length=100)),
                ("member", models.PositiveIntegerField(help_text="0-based within the group.")),
                ("iteration", models.PositiveIntegerField()),
                ("split", models.CharField(max_length=5)),
                ("superseded", models.BooleanField(default=False)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("playing", "Playing"),
                            ("success", "Success"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=7,
                    ),
                ),
                ("end", models.CharField(blank=True, max_length=12)),
                ("total_reward", models.FloatField(default=0.0)),
                ("turn_count", models.PositiveIntegerField(default=0)),
                ("action_count", models.PositiveIntegerField(default=0)),
                ("token_count", models.PositiveIntegerField(default=0)),
                ("format_error", models.BooleanField(default=False, help_text="At least one turn broke the format.")),
                (
                    "lost_at",
                    models.JSONField(help_text="First action after which success was out of reach.", null=True),
                ),
                ("error", models.TextField(blank=True)),
                ("last_seq", models.PositiveBigIntegerField(default=0, help_text="Its newest event.")),
                ("finished_seq", models.PositiveBigIntegerField(null=True)),
                ("pinned", models.BooleanField(default=False, help_text="Kept whatever the retention says.")),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trajectories",
                        to="trajectories.group",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="trajectories", to="runs.run"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="TokenArrays",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("data", models.BinaryField(help_text="As the journal packs it.")),
                (
                    "trajectory",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="token_arrays",
                        to="trajectories.trajectory",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ShareLink",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("token", models.CharField(default=webapp.core.ids.token, editable=False, max_length=32, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "turn",
                    models.PositiveIntegerField(blank=True, help_text="0-based: where the player opens.", null=True),
                ),
                ("action", models.PositiveIntegerField(blank=True, help_text="0-based, within the turn.", null=True)),
                ("indexable", models.BooleanField(default=False, help_text="Search engines may list it.")),
                ("views", models.PositiveIntegerField(default=0)),
                ("last_viewed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="shares",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "trajectory",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="shares", to="trajectories.trajectory"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Turn",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField(help_text="0-based.")),
                ("seq", models.PositiveBigIntegerField()),
                ("reward", models.FloatField()),
                ("format_valid", models.BooleanField()),
                ("event", models.JSONField(help_text="The journal's turn event.")),
                (
                    "words",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.contrib.postgres.search.SearchVector(
                            django.db.models.functions.text.Left(
                                django.db.models.fields.json.KeyTextTransform("thought", "event"), 50000
                            ),
                            django.db.models.functions.text.Left(
                                django.db.models.fields.json.KeyTextTransform("answer", "event"), 50000
                            ),
                            config="simple",
                        ),
                        help_text="Thought and answer as the full-text search reads them.",
                        output_field=django.contrib.postgres.search.SearchVectorField(),
                    ),
                ),
                (
                    "trajectory",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="turns", to="trajectories.trajectory"
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
            },
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(fields=["run", "-id"], name="group_newest"),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(fields=["run", "seed"], name="group_same_prompt"),
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.UniqueConstraint(
                fields=("run", "iteration", "split", "suite", "number", "attempt"), name="one_group_per_number"
            ),
        ),
        migrations.AddIndex(
            model_name="trajectory",
            index=models.Index(fields=["run", "iteration", "split"], name="trajectory_iteration"),
        ),
        migrations.AddIndex(
            model_name="trajectory",
            index=models.Index(fields=["run", "total_reward"], name="trajectory_reward"),
        ),
        migrations.AddIndex(
            model_name="trajectory",
            index=models.Index(
                condition=models.Q(("finished_seq__isnull", False)),
                fields=["run", "-finished_seq"],
                name="trajectory_finished",
            ),
        ),
        migrations.AddIndex(
            model_name="trajectory",
            index=models.Index(
                condition=models.Q(("status", "playing")), fields=["run", "-last_seq"], name="trajectory_playing"
            ),
        ),
        migrations.AddConstraint(
            model_name="trajectory",
            constraint=models.UniqueConstraint(fields=("run", "attempt", "key"), name="one_trajectory_per_key"),
        ),
        migrations.AddIndex(
            model_name="turn",
            index=django.contrib.postgres.indexes.GinIndex(fields=["words"], name="turn_words"),
        ),
        migrations.AddConstraint(
            model_name="turn",
            constraint=models.UniqueConstraint(fields=("trajectory", "number"), name="one_turn_per_number"),
        ),
    ]
