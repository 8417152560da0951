from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0017_worker_usage"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="data_folder",
            field=models.CharField(blank=True, help_text="Identity of its data folder.", max_length=24),
        ),
        migrations.AddField(
            model_name="worker",
            name="data_folder",
            field=models.CharField(blank=True, help_text="Identity of the data folder that it sees.", max_length=24),
        ),
    ]
