"""`manage.py export_client_types`: write echoscope/models.py from the OpenAPI document of the API."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from webapp.api.client_types import client_types


class Command(BaseCommand):
    help = "Writes the types of the Python client, echoscope/models.py, from the OpenAPI document of the API."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.ROOT / "echoscope" / "models.py"
        path.write_text(client_types(), encoding="utf-8")
        self.stdout.write(f"Wrote {path.relative_to(settings.ROOT)}.")
