"""Images of observations that were sent with a run, counted for its quota."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api", "0002_help_texts"),
    ]

    operations = [
        migrations.AddField(
            model_name="sentjournal",
            name="image_count",
            field=models.PositiveIntegerField(default=0, db_default=0, help_text="Images of observations."),
        ),
        migrations.AddField(
            model_name="sentjournal",
            name="image_bytes",
            field=models.PositiveBigIntegerField(default=0, db_default=0, help_text="Of these images together."),
        ),
    ]
