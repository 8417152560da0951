"""Schema of the app in one migration; databases that applied the replaced ones keep them."""

import django.db.models.deletion
import django.utils.timezone
import webapp.alerts.models
import webapp.core.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("alerts", "0001_initial"),
    ]

    dependencies = [
        ("runs", "0001_squashed"),
        ("teams", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Rule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.CharField(default=webapp.core.ids.slug, editable=False, max_length=24, unique=True)),
                ("name", models.CharField(max_length=120)),
                ("events", models.JSONField(default=list)),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("all", "All runs of the team"),
                            ("environment", "Runs in one environment"),
                            ("tag", "Runs with one tag"),
                            ("own", "My own runs"),
                        ],
                        default="all",
                        max_length=11,
                    ),
                ),
                ("scope_value", models.CharField(blank=True, help_text="The environment or the tag.", max_length=100)),
                (
                    "suite",
                    models.CharField(blank=True, help_text="Evaluation suite; empty = every one.", max_length=100),
                ),
                ("threshold", models.FloatField(default=0.5, help_text="Success rate, 0 to 1.")),
                ("queued_minutes", models.PositiveIntegerField(default=30)),
                ("stalled_minutes", models.PositiveIntegerField(default=30)),
                (
                    "channel",
                    models.CharField(
                        choices=[
                            ("email", "E-mail"),
                            ("webhook", "Webhook (signed JSON)"),
                            ("slack", "Slack or compatible"),
                        ],
                        default="email",
                        max_length=7,
                    ),
                ),
                ("addresses", models.JSONField(default=list, help_text="E-mail addresses.")),
                ("url", models.CharField(blank=True, max_length=1000)),
                ("secret", models.CharField(default=webapp.alerts.models.new_secret, max_length=100)),
                ("enabled", models.BooleanField(default=True)),
                ("disabled_reason", models.TextField(blank=True, help_text="Why it was switched off by itself.")),
                ("failures", models.PositiveIntegerField(default=0, help_text="Deliveries given up in a row.")),
                (
                    "since",
                    models.DateTimeField(
                        default=django.utils.timezone.now, help_text="What happened before is not told."
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="alert_rules",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="alert_rules", to="teams.team"
                    ),
                ),
            ],
            options={
                "ordering": ["name", "pk"],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.CharField(default=webapp.core.ids.slug, editable=False, max_length=24, unique=True)),
                ("event", models.CharField(help_text="A Rule.Event, or “test”.", max_length=10)),
                ("key", models.CharField(max_length=200)),
                ("payload", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[("pending", "Waiting"), ("delivered", "Delivered"), ("failed", "Given up")],
                        default="pending",
                        max_length=9,
                    ),
                ),
                ("tries", models.PositiveIntegerField(default=0, help_text="Since it was created or sent again.")),
                ("next_try_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("claim", models.CharField(blank=True, help_text="Who tries at the moment.", max_length=24)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_deliveries",
                        to="runs.run",
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="alerts.rule"
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="Standstill",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("state", models.CharField(help_text="queued, or held by a worker.", max_length=10)),
                (
                    "seq",
                    models.PositiveBigIntegerField(help_text="Events of its journal when it was last seen to move."),
                ),
                ("since", models.DateTimeField()),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="standstill", to="runs.run"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Try",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("milliseconds", models.PositiveIntegerField()),
                (
                    "status",
                    models.PositiveIntegerField(help_text="HTTP status; empty when there was no answer.", null=True),
                ),
                ("ok", models.BooleanField()),
                (
                    "answer",
                    models.TextField(blank=True, help_text="The beginning of the answer, or why there was none."),
                ),
                (
                    "delivery",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="log", to="alerts.delivery"
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
            },
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(condition=models.Q(("state", "pending")), fields=["next_try_at"], name="delivery_due"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["rule", "-id"], name="delivery_newest"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("rule", "key"), name="one_delivery_per_event"),
        ),
    ]
