"""`manage.py import_journal`: imports a run trained elsewhere, optionally while it is still in training."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from trainer.journal.events import RunStarted
from trainer.journal.observation_images import MAX_IMAGE_BYTES
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import JournalError, read_lines
from webapp.api.uploads import do_count_image, do_touch_import
from webapp.ingest.imports import ENDS, NotImportable, do_create_imported_run, do_finish_import, do_settle_end
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.teams.models import Team, User
from webapp.trajectories.observation_images import ImageRefused, check_image, images_in, is_stored, store_image

POLL_INTERVAL = 0.5
TOUCH_INTERVAL = 60.0
"""Seconds between reads of a growing file, and between heartbeats that keep its run counted as running."""


class Command(BaseCommand):
    help = "Imports the journal of a run trained elsewhere, or continues one that stopped at an invalid line."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", nargs="?", type=Path, help=f"Folder with {JOURNAL_FILE}, or the file itself.")
        parser.add_argument(
            "--run", metavar="SLUG", help="Continue the journal of this run instead of creating a new one."
        )
        parser.add_argument("--team", metavar="SLUG", help="Team of the run; optional if there is only one.")
        parser.add_argument("--user", metavar="NAME", help="Author of the run.")
        parser.add_argument("--title", help="Title; default: the journal's own.")
        parser.add_argument(
            "--follow",
            action="store_true",
            help="Follow the journal until its run has ended or Ctrl-C.",
        )
        parser.add_argument("--skip-bad-lines", action="store_true", help="Replace unreadable lines with a notice.")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path | None = options["folder"]
        folder = path.parent if path is not None and path.is_file() else path
        if folder is not None and not UntrustedFolder(folder).has(JOURNAL_FILE):
            raise CommandError(f"There is no {JOURNAL_FILE} in {folder}.")
        if options["run"]:
            run = self._known_run(options["run"])
            if options["follow"] and not run.imported:
                raise CommandError("This run is trained on this site: its worker reads its journal.")
            folder = folder or run.folder
            if not UntrustedFolder(folder).has(JOURNAL_FILE):
                raise CommandError(f"There is no {JOURNAL_FILE} in {folder}. Give its folder as an argument.")
        elif folder is not None:
            run = self._new_run(folder, options)
        else:
            raise CommandError("Give the folder of a journal, or --run and the slug of a run to continue.")
        ingest = JournalTailer(run, folder, skip_bad_lines=options["skip_bad_lines"])
        self._copied: set[str] = set()
        total = self._follow(run, ingest) if options["follow"] else self._read(ingest)
        run.refresh_from_db()
        run = do_settle_end(run)
        self.stdout.write(f"{total} events read, {run.seq} in all: /runs/{run.slug}/")
        if run.journal_error:
            raise CommandError(run.journal_error)

    def _known_run(self, slug: str) -> Run:
        run = Run.objects.filter(slug=slug).first()
        if run is None:
            raise CommandError(f"There is no run {slug}.")
        return run

    def _new_run(self, folder: Path, options: dict[str, Any]) -> Run:
        inside = UntrustedFolder(folder)
        path = inside.path_to(JOURNAL_FILE)
        try:
            with inside.open(JOURNAL_FILE) as file:
                started = next((event for event in read_lines(file) if isinstance(event, RunStarted)), None)
        except JournalError as error:
            raise CommandError(f"{path} cannot be imported: {error}.") from None
        if started is None:
            raise CommandError(f"{path} is not a run's journal: it has no run_started event.")
        team = self._team(options["team"])
        author = self._author(options["user"], team)
        try:
            return do_create_imported_run(team, author, started, title=options["title"] or "")
        except NotImportable as error:
            raise CommandError(f"{path} cannot be imported: {error}.") from None

    def _team(self, slug: str | None) -> Team:
        teams = list(Team.objects.filter(slug=slug) if slug else Team.objects.all()[:2])
        if not teams:
            raise CommandError(f"There is no team {slug}." if slug else "There is no team yet: create one first.")
        if len(teams) > 1:
            raise CommandError("There are several teams: choose one with --team SLUG.")
        return teams[0]

    def _author(self, name: str | None, team: Team) -> User | None:
        if name is None:
            return None
        author = User.objects.filter(username=name, memberships__team=team).first()
        if author is None:
            raise CommandError(f"There is no user {name} in the team {team}.")
        return author

    def _read(self, ingest: JournalTailer) -> int:
        """Ingest all complete lines. Returns the number of events."""
        total = 0
        self._copy_images(ingest)
        while count := ingest.step():
            total += count
            if self.stdout.isatty():
                self.stdout.write(f"\r{total} events", ending="")
        return total

    def _copy_images(self, ingest: JournalTailer) -> None:
        """Keep the new images next to the journal, each before the turns that refer to it are read."""
        run = Run.objects.get(pk=ingest.run_id)
        if ingest.path.parent == run.folder:
            return
        inside = UntrustedFolder(ingest.path.parent)
        for file in images_in(inside):
            if file.path in self._copied:
                continue
            self._copied.add(file.path)
            try:
                with inside.open(file.path) as opened:
                    data = opened.read(MAX_IMAGE_BYTES + 1)
                image = check_image(data, file.sha256, file.media_type)
            except (ImageRefused, FileNotFoundError) as error:
                self.stderr.write(f"{inside.path_to(file.path)} is left out: {error}")
                continue
            if not is_stored(run, image):
                store_image(run, image, data)
                do_count_image(run, image)

    def _follow(self, run: Run, ingest: JournalTailer) -> int:
        """Ingest the growing journal until the run has ended, a line cannot be read, or Ctrl-C."""
        self.stdout.write(f"Following {ingest.path} at /runs/{run.slug}/ (Ctrl-C to stop)")
        total, touched = 0, 0.0
        try:
            while True:
                total += (count := self._read(ingest))
                if count or time.monotonic() - touched >= TOUCH_INTERVAL:
                    do_touch_import(run, growing=True)
                    run = do_finish_import(run, growing=True)
                    touched = time.monotonic()
                run.refresh_from_db(fields=["end_reason", "journal_error"])
                if run.end_reason in ENDS or run.journal_error:
                    break
                time.sleep(POLL_INTERVAL)
        except KeyboardInterrupt:
            self.stdout.write("")
        do_touch_import(run, growing=False)
        return total
