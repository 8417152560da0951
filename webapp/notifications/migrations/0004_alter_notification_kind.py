from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0003_rule_pauses"),
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
                            ("share", "Watched view"),
                            ("solved", "First success"),
                            ("comment", "Comment"),
                            ("alert", "Alert"),
                            ("mention", "Mention"),
                        ],
                        max_length=10,
                    ),
                )
            ]
        ),
    ]
