"""Workers tell how much memory they have."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_rewinds_and_matrix")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="memory",
            field=models.JSONField(
                default=list, help_text="[{name, total, free}] in bytes: the machine's, then each GPU's."
            ),
        ),
    ]
