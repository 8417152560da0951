"""`manage.py record_trap_replay`: records the pair of runs that the page of the Echo Trap plays."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from trainer.journal.reader import JournalError
from webapp.explorer.trap_recorder import NotReplayable, record_run
from webapp.explorer.trap_replay import FILE, TrapReplay, to_json


class Command(BaseCommand):
    help = (
        "Records a run that collapses and its twin with StarPO-S, from the folders of both runs "
        "(python -m trainer train --preset bandit-starpo-trap --out FOLDER, and bandit-starpo_s-trap)."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("starpo", type=Path, help="Folder of the run that collapses.")
        parser.add_argument("starpo_s", type=Path, help="Folder of its twin with StarPO-S.")
        parser.add_argument("--out", type=Path, default=FILE, help="File of the recording; default: the site's own.")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = []
        for name, folder in (("StarPO", options["starpo"]), ("StarPO-S", options["starpo_s"])):
            try:
                runs.append(record_run(folder, name))
            except (NotReplayable, JournalError, OSError) as error:
                raise CommandError(f"{folder} cannot be recorded: {error}") from None
        options["out"].write_text(to_json(TrapReplay(runs)), encoding="utf-8")
        for run in runs:
            self.stdout.write(
                f"{run.name}: {len(run.iterations)} iterations, {len(run.attempts)} different attempts, "
                f"{run.evaluated} on the evaluation puzzles, {len(run.alarms)} alarms."
            )
        self.stdout.write(f"{options['out']}: {options['out'].stat().st_size:,} bytes")
