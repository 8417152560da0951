"""Schema of the app in one migration; databases that applied the replaced ones keep them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("api", "0001_initial"),
    ]

    dependencies = [
        ("runs", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SentJournal",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="sent_journal",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("heard_at", models.DateTimeField(db_index=True, help_text="When its sender was last heard of.")),
                ("growing", models.BooleanField(default=False, help_text="Its sender said that more is to come.")),
            ],
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("operation", models.CharField(max_length=40)),
                ("key", models.CharField(max_length=200)),
                ("fingerprint", models.CharField(help_text="SHA-256 of what was asked for.", max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True, db_index=True)),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "operation", "key"), name="one_request_per_key")
                ],
            },
        ),
    ]
