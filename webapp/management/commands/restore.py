"""`manage.py restore`: restores a backup into an empty database and folder."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from webapp.services.backup.archive import BackupError
from webapp.services.backup.site_restore import read_archive, restore_backup
from webapp.services.postgres import PostgresError


class Command(BaseCommand):
    help = "Restores a backup into an empty data folder. This version may be newer than the backup's."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="File written by `manage.py backup`.")
        parser.add_argument("--check", action="store_true", help="Only verify that the file is complete and undamaged.")

    def handle(self, *args: Any, **options: Any) -> None:
        home = Path(settings.ECHOSCOPE_DATA_DIR)
        try:
            archive = read_archive(options["file"], None if options["check"] else home)
            manifest = archive.manifest
            contents = f"database and folders of {len(manifest.runs)} runs"
            if options["check"]:
                self.stdout.write(f"{options['file']} is complete: {contents}, of {manifest.created_at}.")
                return
            restored = restore_backup(archive, home)
        except (BackupError, PostgresError, OperationalError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Restored {contents}, of {manifest.created_at}; {restored.migrated} migrations applied.")
        for warning in restored.warnings:
            self.stderr.write(f"Note: {warning}")
