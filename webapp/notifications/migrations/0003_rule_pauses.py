from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0002_alter_notification_kind"),
    ]

    operations = [
        migrations.AddField(
            model_name="rule",
            name="pauses",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="An event of TROUBLE also pauses its run, if it trains here.",
            ),
        ),
    ]
