"""`manage.py rebuild_run`: replaces everything shown of a run by what its journal holds."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from trainer.journal.protocol import JOURNAL_FILE
from webapp.ingest.rebuild import RebuildRefused, do_rebuild_ended
from webapp.runs.models import Run
from webapp.runs.untrusted_folder import UntrustedFolder


class Command(BaseCommand):
    help = (
        "Read a run's journal again from its beginning: after a power cut, or when its folder was restored from a "
        "backup. Permalinks, shares and annotations of its trajectories stay."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", metavar="SLUG", help="The run, as in the address of its page.")
        parser.add_argument("folder", nargs="?", type=Path, help=f"Folder with {JOURNAL_FILE}, if not the run's own.")
        parser.add_argument(
            "--skip-bad-lines", action="store_true", help="Put a notice in the place of lines that cannot be read."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        run = Run.objects.filter(slug=options["run"]).first()
        if run is None:
            raise CommandError(f"There is no run {options['run']}.")
        folder: Path | None = options["folder"]
        if folder is not None and not UntrustedFolder(folder).has(JOURNAL_FILE):
            raise CommandError(f"There is no {JOURNAL_FILE} in {folder}.")
        before = run.seq
        try:
            run = do_rebuild_ended(run, folder, skip_bad_lines=options["skip_bad_lines"])
        except RebuildRefused as refusal:
            raise CommandError(str(refusal)) from None
        self.stdout.write(f"{run.seq} events read, {before} before: /runs/{run.slug}/")
        if run.journal_error:
            raise CommandError(run.journal_error)
