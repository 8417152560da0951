from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("teams", "0001_initial"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(  # choices are not part of the table
            state_operations=[
                migrations.AlterField(
                    model_name="auditentry",
                    name="action",
                    field=models.CharField(
                        choices=[
                            ("login", "Logged in"),
                            ("login-failed", "Failed to log in"),
                            ("logout", "Logged out"),
                            ("sessions-ended", "Ended sessions"),
                            ("account-changed", "Changed the account"),
                            ("team-created", "Created the team"),
                            ("team-changed", "Changed the team's settings"),
                            ("role-changed", "Changed a role"),
                            ("invited", "Invited"),
                            ("joined", "Joined"),
                            ("token-created", "Created an API token"),
                            ("removed", "Removed or revoked"),
                            ("restored", "Undid a removal"),
                            ("launched", "Launched"),
                            ("imported", "Imported a run"),
                            ("controlled", "Steered"),
                            ("run-changed", "Changed a run"),
                            ("run-deleted", "Deleted a run"),
                            ("study-changed", "Changed a study"),
                            ("shared", "Shared an attempt"),
                            ("report-changed", "Wrote a report"),
                            ("alert-changed", "Changed an alert rule"),
                            ("view-changed", "Changed a watched view"),
                            ("model-changed", "Changed the models"),
                            ("exported", "Downloaded"),
                            ("administered", "Changed under Administration"),
                        ],
                        max_length=20,
                    ),
                )
            ]
        ),
    ]
