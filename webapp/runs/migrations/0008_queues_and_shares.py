"""Runs ask for device classes and GPUs; what teams use of them is noted; copies of runs in object storage."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0007_worker_memory"),
        ("teams", "0003_invitations_and_tokens"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="DeviceUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("weight", models.FloatField(help_text="GPUs, or what a place without one counts.")),
                ("began_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.AddField(
            model_name="run",
            name="copy",
            field=models.CharField(blank=True, help_text="Which copy of the folder is the valid one.", max_length=24),
        ),
        migrations.AddField(
            model_name="run",
            name="gpus",
            field=models.PositiveSmallIntegerField(default=0, help_text="GPUs of one worker that it asks for."),
        ),
        migrations.AddField(
            model_name="run",
            name="kept_iteration",
            field=models.IntegerField(default=-1, help_text="Newest checkpoint in object storage; -1 = none."),
        ),
        migrations.AddField(
            model_name="run",
            name="memory",
            field=models.BigIntegerField(blank=True, help_text="Bytes it will take; empty where not known.", null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="priority",
            field=models.SmallIntegerField(choices=[(0, "Low"), (1, "Normal"), (2, "High")], default=1),
        ),
        migrations.AddField(
            model_name="run",
            name="promised",
            field=models.ForeignKey(
                blank=True,
                help_text="The worker that takes nothing else until it has room for this run.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="promises",
                to="runs.worker",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="queued_at",
            field=models.DateTimeField(
                blank=True, help_text="Since when it waits; kept when it comes back.", null=True
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="reserved",
            field=models.JSONField(default=list, help_text="GPUs of its worker that are its own, by number."),
        ),
        migrations.AddField(
            model_name="run",
            name="storage_error",
            field=models.TextField(blank=True, help_text="Why its files cannot be copied to object storage."),
        ),
        migrations.AddField(
            model_name="worker",
            name="device_class",
            field=models.CharField(blank=True, help_text="cpu, gpu, or as its operator named it.", max_length=100),
        ),
        migrations.AddField(
            model_name="worker",
            name="gpus",
            field=models.JSONField(default=list, help_text="[{id, name, total, free}] in bytes; null where not told."),
        ),
        migrations.AddField(
            model_name="worker",
            name="runs_per_gpu",
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AlterField(
            model_name="run",
            name="queue",
            field=models.CharField(
                default="training", help_text="Device class it asks for; training = any.", max_length=100
            ),
        ),
        migrations.AlterField(
            model_name="worker",
            name="queues",
            field=models.JSONField(default=list, help_text="Device classes that it serves."),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("state", "queued")), fields=["queue"], name="run_line"),
        ),
        migrations.AddField(
            model_name="deviceuse",
            name="run",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="device_uses", to="runs.run"
            ),
        ),
        migrations.AddField(
            model_name="deviceuse",
            name="team",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="device_uses", to="teams.team"
            ),
        ),
        migrations.AddIndex(
            model_name="deviceuse",
            index=models.Index(fields=["ended_at"], name="use_recent"),
        ),
    ]
