"""Device use by author, for fair shares of people. Recent use is attributed to the authors of its runs."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

ATTRIBUTE = """
UPDATE runs_deviceuse SET author_id = runs_run.author_id FROM runs_run WHERE runs_run.id = runs_deviceuse.run_id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0012_notes_archive_and_undo"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="deviceuse",
            name="author",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="device_uses",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RunSQL(ATTRIBUTE, migrations.RunSQL.noop),
    ]
