"""`manage.py backup`: writes the site to one file, also while it runs."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from webapp.services.backup.archive import BackupError
from webapp.services.backup.site_backup import create_backup


class Command(BaseCommand):
    help = "Writes the embedded database, folders of runs and signing key to one file, also while the site runs."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="New file, for example backup.zip. Only its owner may read it.")

    def handle(self, *args: Any, **options: Any) -> None:
        path = options["file"]
        try:
            report = create_backup(path, Path(settings.ECHOSCOPE_DATA_DIR))
        except BackupError as error:
            raise CommandError(str(error)) from None
        manifest = report.manifest
        self.stdout.write(
            f"{path}: a database of {manifest.database_bytes:,} bytes and folders of {len(manifest.runs)} runs, in "
            f"{report.bytes:,} bytes."
        )
        if manifest.stored:
            self.stdout.write(f"{len(manifest.stored)} runs have copies in object storage, which are only listed.")
        for warning in report.warnings:
            self.stderr.write(f"Note: {warning}")
