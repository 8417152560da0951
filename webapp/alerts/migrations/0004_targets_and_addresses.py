"""Who set a rule's target, and addresses outside a team that their owners have confirmed.

Addresses of existing rules count as confirmed. The author of an existing rule set its target where no other member could
have; elsewhere the rule reports no private runs until its author saves it again.
"""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

from webapp.core import ids


SET_BY_AUTHOR = """
UPDATE alerts_rule AS rule SET target_author_id = author_id
WHERE NOT EXISTS (
    SELECT 1 FROM teams_membership
    WHERE team_id = rule.team_id AND user_id <> rule.author_id AND role IN ('member', 'admin')
)
"""


def confirm_addresses(apps: Any, schema_editor: Any) -> None:
    addresses = apps.get_model("alerts", "AlertAddress")
    named = {
        (team, address.lower())
        for team, listed in apps.get_model("alerts", "Rule").objects.values_list("team", "addresses")
        for address in listed
    }
    now = timezone.now()
    addresses.objects.bulk_create(
        addresses(team_id=team, email=email, token=ids.token(), confirmed_at=now) for team, email in sorted(named)
    )


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0003_help_texts"),
        ("teams", "0004_creators_and_daily_uses"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="rule",
            name="target_author",
            field=models.ForeignKey(
                help_text="Who set the target last.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.CreateModel(
            name="AlertAddress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("email", models.EmailField(help_text="In lower case.", max_length=254)),
                ("token", models.CharField(default=ids.token, editable=False, max_length=32, unique=True)),
                ("sent_at", models.DateTimeField(help_text="When the link was sent last.", null=True)),
                ("confirmed_at", models.DateTimeField(null=True)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="alert_addresses", to="teams.team"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("team", "email"), name="one_confirmation_per_address")],
            },
        ),
        migrations.RunSQL(SET_BY_AUTHOR, migrations.RunSQL.noop),
        migrations.RunPython(confirm_addresses, migrations.RunPython.noop),
    ]
