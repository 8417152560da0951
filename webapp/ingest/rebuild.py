"""Rebuilds everything shown of a run from its journal, after a power cut or a restored folder."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from django.db import transaction

from trainer.journal.events import Notice
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal
from webapp.ingest import writer
from webapp.ingest.imports import do_settle_end
from webapp.ingest.tailer import JournalTailer
from webapp.runs import run_files
from webapp.runs.actions import notify_on_commit
from webapp.runs.models import Run

logger = logging.getLogger(__name__)


class RebuildRefused(Exception):
    """The run cannot be rebuilt now. The message gives the reason and what to do."""


@transaction.atomic
def do_rebuild(run: Run, folder: Path | None = None, *, skip_bad_lines: bool = False) -> Run:
    """Replace what was read from the run's journal by what the file holds now, in one transaction.

    Permalinks, shares, stars, tags and comments of trajectories stay. Trajectories that the journal no longer holds are
    deleted unless they are shared or annotated. Pages that are open reload.

    Args:
        run: not being trained, unless the caller supervises it.
        folder: where the journal is, if not in the run's own folder.
        skip_bad_lines: put a notice in the place of invalid lines instead of stopping there.
    Returns:
        The run as it is now, with `journal_error` if the journal could not be read to its end.
    """
    run = Run.objects.select_for_update().get(pk=run.pk)
    before = run.seq
    writer.clear(run)
    run.rebuild_requested = False
    run.save()
    JournalTailer(run, folder, skip_bad_lines=skip_bad_lines).drain()
    writer.drop_unannounced(run)
    run.refresh_from_db()
    logger.warning("Run %s: rebuilt from its journal, %d events (%d before).", run.slug, run.seq, before)
    notify_on_commit(run.pk)
    return run


def do_recover_cut_journal(run: Run) -> Run:
    """Rebuild a supervised run whose journal lost its end, and record the loss in the journal and on the page."""
    before = run.seq
    run = do_rebuild(run)
    if run.journal_error:
        return run
    journal = Journal(run.folder)
    journal.write(
        Notice(
            level="warning",
            message=(
                f"The journal ended {before - run.seq} events before what had been shown, as after a power cut. These "
                "events are no longer shown; training repeats them from the newest checkpoint."
            ),
        )
    )
    journal.close()
    return run


def do_rebuild_ended(run: Run, folder: Path | None = None, *, skip_bad_lines: bool = False) -> Run:
    """Rebuild a run that is not being trained, from its folder or its copy in storage. Raises RebuildRefused."""
    if run.state in (Run.State.STARTING, Run.State.RUNNING) and not run.imported:
        raise RebuildRefused("This run is being trained: pause it first, then rebuild it and resume it.")
    if folder is None and not (run.folder / JOURNAL_FILE).is_file():
        blocks = run_files.journal(run)
        if blocks is None:
            raise RebuildRefused(
                f"There is no {JOURNAL_FILE} in {run.folder}, and no copy in storage. If another machine has the "
                f"folder, run this there: python manage.py rebuild_run {run.slug}"
            )
        with tempfile.TemporaryDirectory() as copy:
            with (Path(copy) / JOURNAL_FILE).open("wb") as file:
                file.writelines(blocks)
            return do_settle_end(do_rebuild(run, Path(copy), skip_bad_lines=skip_bad_lines))
    return do_settle_end(do_rebuild(run, folder, skip_bad_lines=skip_bad_lines))


def do_requested_rebuilds() -> int:
    """Rebuild the runs for which the page requested it; a job of the clock. Returns how many."""
    requested = list(Run.objects.filter(rebuild_requested=True))
    for run in requested:
        try:
            do_rebuild_ended(run)
        except RebuildRefused as refusal:
            Run.objects.filter(pk=run.pk).update(rebuild_requested=False, journal_error=str(refusal))
    return len(requested)
