import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0001_squashed")]

    operations = [
        migrations.RenameModel("Try", "DeliveryAttempt"),
        migrations.RenameModel("Standstill", "StalledRun"),
        migrations.AlterField(
            model_name="delivery",
            name="claim",
            field=models.CharField(blank=True, help_text="Token of the current attempt.", max_length=24),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="state",
            field=models.CharField(
                choices=[("pending", "Waiting"), ("delivered", "Delivered"), ("failed", "Failed")],
                default="pending",
                max_length=9,
            ),
        ),
        migrations.AlterField(
            model_name="deliveryattempt",
            name="answer",
            field=models.TextField(blank=True, help_text="The beginning of the response, or why there was none."),
        ),
        migrations.AlterField(
            model_name="deliveryattempt",
            name="status",
            field=models.PositiveIntegerField(help_text="HTTP status; empty without a response.", null=True),
        ),
        migrations.AlterField(
            model_name="rule",
            name="disabled_reason",
            field=models.TextField(blank=True, help_text="Why the rule was disabled automatically."),
        ),
        migrations.AlterField(
            model_name="rule",
            name="since",
            field=models.DateTimeField(
                default=django.utils.timezone.now, help_text="Earlier events are not delivered."
            ),
        ),
        migrations.AlterField(
            model_name="stalledrun",
            name="run",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, related_name="stalled", to="runs.run"
            ),
        ),
        migrations.AlterField(
            model_name="stalledrun",
            name="seq",
            field=models.PositiveBigIntegerField(help_text="Journal events at its last progress."),
        ),
    ]
