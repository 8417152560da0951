from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0018_data_folder"),
    ]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="cluster",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text=(
                    "Ray cluster that it stands for: {problem, nodes: [{id, name, cpus, cpus_free, gpus, gpus_free}]}."
                ),
            ),
        ),
    ]
