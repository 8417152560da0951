"""Words of thoughts and answers for the full-text search, and indexes for order by reward and for the same prompt."""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.fields.json
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("trajectories", "0003_sharing_and_tokens"),
    ]

    operations = [
        migrations.AddField(
            model_name="turn",
            name="words",
            field=models.GeneratedField(
                db_persist=True,
                expression=django.contrib.postgres.search.SearchVector(
                    django.db.models.functions.text.Left(django.db.models.fields.json.KT("event__thought"), 50000),
                    django.db.models.functions.text.Left(django.db.models.fields.json.KT("event__answer"), 50000),
                    config="simple",
                ),
                help_text="Thought and answer as the full-text search reads them.",
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AddIndex(
            model_name="turn",
            index=django.contrib.postgres.indexes.GinIndex(fields=["words"], name="turn_words"),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(fields=["run", "seed"], name="group_same_prompt"),
        ),
        migrations.AddIndex(
            model_name="trajectory",
            index=models.Index(fields=["run", "total_reward"], name="trajectory_reward"),
        ),
    ]
