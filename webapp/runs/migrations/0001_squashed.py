"""Schema of the app in one migration; databases that applied the replaced ones keep them."""

import django.db.models.deletion
import webapp.core.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("runs", "0001_initial"),
        ("runs", "0002_initial"),
        ("runs", "0003_evaluation_samples"),
        ("runs", "0004_run_visibility"),
        ("runs", "0005_visibility_words"),
        ("runs", "0006_rewinds_and_matrix"),
        ("runs", "0007_worker_memory"),
        ("runs", "0008_queues_and_shares"),
    ]

    dependencies = [
        ("teams", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("host", models.CharField(blank=True, max_length=200)),
                ("pid", models.IntegerField(default=0)),
                ("device", models.CharField(blank=True, max_length=200)),
                (
                    "device_class",
                    models.CharField(blank=True, help_text="cpu, gpu, or as its operator named it.", max_length=100),
                ),
                ("queues", models.JSONField(default=list, help_text="Device classes that it serves.")),
                ("slots", models.PositiveIntegerField(default=1)),
                (
                    "gpus",
                    models.JSONField(
                        default=list, help_text="[{id, name, total, free}] in bytes; null where not told."
                    ),
                ),
                ("runs_per_gpu", models.PositiveIntegerField(default=1)),
                (
                    "memory",
                    models.JSONField(
                        default=list, help_text="[{name, total, free}] in bytes: the machine's, then each GPU's."
                    ),
                ),
                ("started_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField(db_index=True)),
                (
                    "stopping",
                    models.BooleanField(default=False, help_text="Told to shut down: its runs go back to the queue."),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.CharField(default=webapp.core.ids.slug, editable=False, max_length=24, unique=True)),
                ("title", models.CharField(max_length=200)),
                ("config", models.JSONField(help_text="The complete RunConfig.")),
                ("preset", models.CharField(blank=True, max_length=100)),
                ("environment", models.CharField(max_length=100)),
                ("tags", models.JSONField(default=list)),
                (
                    "queue",
                    models.CharField(
                        default="training", help_text="Device class it asks for; training = any.", max_length=100
                    ),
                ),
                ("priority", models.SmallIntegerField(choices=[(0, "Low"), (1, "Normal"), (2, "High")], default=1)),
                ("gpus", models.PositiveSmallIntegerField(default=0, help_text="GPUs of one worker that it asks for.")),
                (
                    "memory",
                    models.BigIntegerField(
                        blank=True, help_text="Bytes it will take; empty where not known.", null=True
                    ),
                ),
                (
                    "imported",
                    models.BooleanField(default=False, help_text="Trained elsewhere; its journal was imported."),
                ),
                (
                    "visibility",
                    models.CharField(
                        choices=[
                            ("private", "Its author and the team's admins"),
                            ("team", "The team"),
                            ("link", "Anyone with the link"),
                        ],
                        default="team",
                        max_length=7,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("paused", "Paused"),
                            ("stopped", "Stopped"),
                            ("finished", "Finished"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                (
                    "requested",
                    models.CharField(
                        blank=True,
                        choices=[("", "Nothing"), ("pause", "Pausing"), ("stop", "Stopping"), ("cancel", "Cancelling")],
                        default="",
                        max_length=10,
                    ),
                ),
                (
                    "lease",
                    models.CharField(
                        blank=True, help_text="Who holds the run: a secret of that supervisor.", max_length=24
                    ),
                ),
                ("lease_expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "reserved",
                    models.JSONField(default=list, help_text="GPUs of its worker that are its own, by number."),
                ),
                (
                    "queued_at",
                    models.DateTimeField(
                        blank=True, help_text="Since when it waits; kept when it comes back.", null=True
                    ),
                ),
                (
                    "woken_at",
                    models.DateTimeField(blank=True, help_text="When workers were last told about it.", null=True),
                ),
                (
                    "crashes",
                    models.PositiveIntegerField(
                        default=0, help_text="Sudden deaths in a row without a finished iteration."
                    ),
                ),
                ("crash_iteration", models.PositiveIntegerField(default=0)),
                ("failure", models.TextField(blank=True, help_text="Why it failed, in words.")),
                ("log_tail", models.TextField(blank=True, help_text="The last lines of the log when it failed.")),
                (
                    "attempt",
                    models.PositiveIntegerField(
                        default=0, help_text="As told by the journal; 0 before its first line."
                    ),
                ),
                ("iterations", models.PositiveIntegerField(default=0, help_text="Planned.")),
                ("iteration", models.PositiveIntegerField(default=0, help_text="Finished.")),
                ("device", models.CharField(blank=True, max_length=200)),
                ("parameters", models.BigIntegerField(default=0)),
                ("phase", models.CharField(blank=True, max_length=20)),
                ("phase_iteration", models.PositiveIntegerField(default=0)),
                ("phase_done", models.PositiveBigIntegerField(default=0)),
                ("phase_total", models.PositiveBigIntegerField(default=0)),
                ("phase_unit", models.CharField(blank=True, max_length=40)),
                ("tokens_per_second", models.FloatField(blank=True, null=True)),
                ("eta_seconds", models.FloatField(blank=True, null=True)),
                (
                    "end_reason",
                    models.CharField(blank=True, help_text="run_finished.reason of the newest attempt.", max_length=20),
                ),
                ("end_message", models.TextField(blank=True)),
                ("summary", models.JSONField(default=dict)),
                (
                    "copy",
                    models.CharField(blank=True, help_text="Which copy of the folder is the valid one.", max_length=24),
                ),
                (
                    "kept_iteration",
                    models.IntegerField(default=-1, help_text="Newest checkpoint in object storage; -1 = none."),
                ),
                (
                    "storage_error",
                    models.TextField(blank=True, help_text="Why its files cannot be copied to object storage."),
                ),
                (
                    "journal_offset",
                    models.PositiveBigIntegerField(default=0, help_text="Bytes of the journal in the database."),
                ),
                ("seq", models.PositiveBigIntegerField(default=0, help_text="Events of the journal in the database.")),
                (
                    "resync_seq",
                    models.PositiveBigIntegerField(default=0, help_text="Cursors before this event must reload."),
                ),
                (
                    "journal_error",
                    models.TextField(blank=True, help_text="Why the journal cannot be read on, and what to do."),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="runs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="teams.team"
                    ),
                ),
                (
                    "promised",
                    models.ForeignKey(
                        blank=True,
                        help_text="The worker that takes nothing else until it has room for this run.",
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="promises",
                        to="runs.worker",
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="runs",
                        to="runs.worker",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at"],
            },
        ),
        migrations.CreateModel(
            name="GeneralizationMatrix",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveBigIntegerField()),
                ("policies", models.JSONField()),
                ("suites", models.JSONField()),
                ("cells", models.JSONField()),
                ("time", models.DateTimeField()),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="matrix", to="runs.run"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Rewind",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveBigIntegerField()),
                ("number", models.PositiveIntegerField(help_text="From 1.")),
                ("from_iteration", models.PositiveIntegerField()),
                ("to_iteration", models.PositiveIntegerField()),
                ("changes", models.JSONField(default=dict, help_text="Setting → its value from now on, as text.")),
                ("time", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rewinds", to="runs.run"
                    ),
                ),
            ],
            options={
                "ordering": ["seq"],
                "constraints": [models.UniqueConstraint(fields=("run", "seq"), name="one_rewind_per_event")],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveBigIntegerField()),
                ("level", models.CharField(max_length=10)),
                ("message", models.TextField()),
                ("time", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="notices", to="runs.run"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["run", "-seq"], name="notice_newest")],
            },
        ),
        migrations.CreateModel(
            name="MetricPoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("iteration", models.PositiveIntegerField()),
                ("value", models.FloatField()),
                ("tokens", models.PositiveBigIntegerField()),
                ("seconds", models.FloatField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="metrics", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "name", "iteration"), name="one_value_per_iteration")
                ],
            },
        ),
        migrations.CreateModel(
            name="EventBatch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("first_seq", models.PositiveBigIntegerField()),
                ("last_seq", models.PositiveBigIntegerField()),
                ("frame", models.TextField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="batches", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("run", "last_seq"), name="batches_do_not_overlap")],
            },
        ),
        migrations.CreateModel(
            name="Evaluation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("iteration", models.PositiveIntegerField()),
                ("suite", models.CharField(max_length=100)),
                ("prompts", models.PositiveIntegerField()),
                ("samples", models.PositiveIntegerField(default=1, help_text="Trajectories from each prompt.")),
                ("success", models.FloatField()),
                ("success_low", models.FloatField()),
                ("success_high", models.FloatField()),
                ("pass_at", models.JSONField(default=dict, help_text="k → pass@k.")),
                ("mean_reward", models.FloatField()),
                ("mean_turns", models.FloatField()),
                ("mean_actions", models.FloatField()),
                ("mean_response", models.FloatField(help_text="Sampled tokens per turn.", null=True)),
                ("final", models.BooleanField(default=False)),
                ("time", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="evaluations", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "suite", "iteration"), name="one_evaluation_per_iteration")
                ],
            },
        ),
        migrations.CreateModel(
            name="DeviceUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("weight", models.FloatField(help_text="GPUs, or what a place without one counts.")),
                ("began_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="device_uses", to="teams.team"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="device_uses",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["ended_at"], name="use_recent")],
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("iteration", models.PositiveIntegerField()),
                ("path", models.CharField(max_length=500)),
                ("bytes", models.PositiveBigIntegerField()),
                ("time", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="checkpoints", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "iteration"), name="one_checkpoint_per_iteration")
                ],
            },
        ),
        migrations.CreateModel(
            name="Alarm",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveBigIntegerField()),
                ("iteration", models.PositiveIntegerField()),
                ("state", models.CharField(max_length=10)),
                ("message", models.TextField()),
                ("evidence", models.JSONField(default=dict)),
                ("undone", models.BooleanField(default=False, help_text="Its iteration was undone by a rewind.")),
                ("time", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="alarms", to="runs.run"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["run", "-seq"], name="alarm_newest")],
            },
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["team", "-created_at"], name="run_list"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["state", "lease_expires_at"], name="run_claim"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("state", "queued")), fields=["queue"], name="run_line"),
        ),
    ]
