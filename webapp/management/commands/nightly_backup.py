"""`manage.py nightly_backup`: what the clock runs each night; writes and verifies a backup in ECHOSCOPE_BACKUP_DIR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from webapp.services.backup.archive import BackupError
from webapp.services.backup.nightly import make_nightly_backup


class Command(BaseCommand):
    help = "Writes a backup into ECHOSCOPE_BACKUP_DIR, verifies it, and keeps the newest ECHOSCOPE_BACKUPS_KEPT."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.ECHOSCOPE_BACKUP_DIR:
            raise CommandError("Set ECHOSCOPE_BACKUP_DIR to the folder for the backups.")
        home, folder = Path(settings.ECHOSCOPE_DATA_DIR), Path(settings.ECHOSCOPE_BACKUP_DIR)
        try:
            path = make_nightly_backup(folder, home, settings.ECHOSCOPE_BACKUPS_KEPT, timezone.now())
        except BackupError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{path} is complete.")
