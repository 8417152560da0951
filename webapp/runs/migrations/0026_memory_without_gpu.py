from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0025_stored_models"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="memory_without_gpu",
            field=models.BigIntegerField(
                blank=True,
                help_text="Estimated bytes if it requests a GPU and runs without one; empty if unknown.",
                null=True,
            ),
        ),
    ]
