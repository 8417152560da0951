from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0001_initial"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(  # choices are not part of the table
            state_operations=[
                migrations.AlterField(
                    model_name="notification",
                    name="kind",
                    field=models.CharField(
                        choices=[
                            ("finished", "Run finished"),
                            ("failed", "Run failed"),
                            ("watch", "Echo Trap: watch"),
                            ("trapped", "Echo Trap: trapped"),
                            ("sick", "Run is sick"),
                            ("solved", "First success"),
                            ("comment", "Comment"),
                            ("alert", "Alert"),
                            ("mention", "Mention"),
                        ],
                        max_length=10,
                    ),
                ),
            ],
        ),
    ]
