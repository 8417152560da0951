from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0006_inbox_channel_and_one_run"),
    ]

    operations = [
        migrations.AddField(
            model_name="rule",
            name="former_secrets",
            field=models.JSONField(
                default=list,
                help_text="Replaced secrets that still sign, the latest first: secret, and until when (ISO 8601).",
            ),
        ),
    ]
