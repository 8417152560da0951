from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0015_log_lines"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="group",
            field=models.CharField(
                blank=True, default="", help_text="Experiment it belongs to, such as arms and seeds.", max_length=80
            ),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("group", ""), _negated=True), fields=["team", "group"], name="run_group"
            ),
        ),
    ]
