import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0003_changes_and_timeline"),
        ("saved_views", "0001_initial"),
        ("teams", "0001_initial"),
        ("trajectories", "0003_trajectory_mismatch"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Label",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "scanner",
                    models.CharField(blank=True, help_text="Slug of a scanner; then view = null.", max_length=60),
                ),
                ("right", models.BooleanField(help_text="Whether the attempt is what the view looks for.")),
                (
                    "sampled",
                    models.BooleanField(help_text="Whether it was drawn at random from what the view did not find."),
                ),
                ("labelled_at", models.DateTimeField(auto_now=True)),
            ],
        ),
        migrations.CreateModel(
            name="WatchedRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("iteration", models.IntegerField()),
                ("end_reason", models.CharField(blank=True, max_length=20)),
                ("rebuilds", models.PositiveIntegerField()),
            ],
        ),
        migrations.AddField(
            model_name="savedview",
            name="curve",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Last part of the metric with its shares of attempts; empty: it is not watched.",
                max_length=60,
            ),
        ),
        migrations.AddField(
            model_name="savedview",
            name="scanner",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Slug of the shipped scanner that it was made of, with which it shares its labels.",
                max_length=60,
            ),
        ),
        migrations.AddField(
            model_name="savedview",
            name="threshold",
            field=models.FloatField(
                help_text="Share, 0 to 1, above which there is an alert; null: no alert.", null=True
            ),
        ),
        migrations.AddField(
            model_name="savedview",
            name="watched_since",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None), models.Q(("curve", ""), _negated=True)),
                fields=("team", "curve"),
                name="one_view_per_curve",
            ),
        ),
        migrations.AddField(
            model_name="label",
            name="author",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="label",
            name="trajectory",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="labels", to="trajectories.trajectory"
            ),
        ),
        migrations.AddField(
            model_name="label",
            name="view",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="labels",
                to="saved_views.savedview",
            ),
        ),
        migrations.AddField(
            model_name="watchedrun",
            name="run",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"),
        ),
        migrations.AddField(
            model_name="watchedrun",
            name="view",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="watched_runs", to="saved_views.savedview"
            ),
        ),
        migrations.AddConstraint(
            model_name="label",
            constraint=models.UniqueConstraint(
                fields=("view", "scanner", "trajectory"), name="one_label_per_attempt", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="watchedrun",
            constraint=models.UniqueConstraint(fields=("view", "run"), name="one_state_per_watched_run"),
        ),
    ]
