"""Rebuilds a run's tables from its journal, after a power cut or when a folder was restored."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from trainer.journal.events import Notice
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal
from webapp.annotations.queries import is_annotated
from webapp.branching.answer_metrics import do_restore_metrics
from webapp.ingest import echo_trap_detector, writer
from webapp.ingest.imports import do_settle_end
from webapp.ingest.tailer import JournalTailer
from webapp.runs import object_storage, run_files, setting_changes
from webapp.runs.actions import notify_on_commit
from webapp.runs.models import GeneralizationMatrix, Run
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.trajectories.models import ShareLink, TokenArrays, Turn

logger = logging.getLogger(__name__)


class RebuildRefused(Exception):
    """The run cannot be rebuilt now. The message gives the reason and what to do."""


@transaction.atomic
def do_rebuild(run: Run, folder: Path | None = None, *, skip_bad_lines: bool = False) -> Run:
    """Replace the stored data of the run's journal with the present contents of the file, in one transaction.

    Permalinks, shares, stars, tags and comments of trajectories are kept. Trajectories that are missing from the
    journal are deleted unless they are shared or annotated. Open pages reload.

    Args:
        run: must not be in training unless the caller supervises it.
        folder: folder of the journal, if it is not the run's own.
        skip_bad_lines: replace invalid lines with a notice instead of stopping there.
    Returns:
        The run as it is now, with `journal_error` if the journal could not be read to its end.
    """
    run = Run.objects.select_for_update().get(pk=run.pk)
    previous_seq = run.seq
    _clear(run)
    run.rebuild_requested = False
    run.save()
    JournalTailer(run, folder, skip_bad_lines=skip_bad_lines).drain()
    _drop_unannounced(run)
    run.refresh_from_db()
    do_restore_metrics(run)
    logger.warning("Run %s: rebuilt from its journal, %d events (%d before).", run.slug, run.seq, previous_seq)
    notify_on_commit(run.pk)
    return run


def do_recover_cut_journal(run: Run) -> Run:
    """Rebuild a supervised run whose journal lost its end, and record the loss in the journal and on the page."""
    previous_seq = run.seq
    run = do_rebuild(run)
    if run.journal_error:
        return run
    journal = Journal(run.folder, UntrustedFolder(run.folder).append)
    journal.write(
        Notice(
            level="warning",
            message=(
                f"The journal ended {previous_seq - run.seq} events before what had been shown, as after a power cut. "
                "These events are no longer shown; training repeats them from the newest checkpoint."
            ),
        )
    )
    journal.close()
    return run


def do_rebuild_ended(run: Run, folder: Path | None = None, *, skip_bad_lines: bool = False) -> Run:
    """Rebuild a run that is not being trained, from its folder or its copy in storage. Raises RebuildRefused."""
    _refuse_in_training(run)
    if folder is not None or UntrustedFolder(run.folder).has(JOURNAL_FILE):
        return _rebuild_unless_training(run, folder, skip_bad_lines)
    with tempfile.TemporaryDirectory() as copy:
        _fetch_journal(run, Path(copy))
        return _rebuild_unless_training(run, Path(copy), skip_bad_lines)


def _fetch_journal(run: Run, folder: Path) -> None:
    blocks = run_files.journal(run)
    if blocks is None:
        raise RebuildRefused(
            f"There is no {JOURNAL_FILE} in {run.folder}, and no copy in storage. If another machine has the "
            f"folder, run this there: python manage.py rebuild_run {run.slug}"
        )
    try:
        with UntrustedFolder(folder).create(JOURNAL_FILE) as file:
            file.writelines(blocks)
    except object_storage.failures() as error:
        raise RebuildRefused(
            f"The journal's copy in storage cannot be read ({error}). Nothing was changed: try again when the storage "
            "answers."
        ) from error


@transaction.atomic
def _rebuild_unless_training(run: Run, folder: Path | None, skip_bad_lines: bool) -> Run:
    run = Run.objects.select_for_update().get(pk=run.pk)  # a worker that claims it now waits for this row
    _refuse_in_training(run)
    return do_settle_end(do_rebuild(run, folder, skip_bad_lines=skip_bad_lines))


def _refuse_in_training(run: Run) -> None:
    if run.state in (Run.State.STARTING, Run.State.RUNNING) and not run.imported:
        raise RebuildRefused("This run is being trained: pause it first, then rebuild it and resume it.")


def requested_rebuilds() -> QuerySet[Run]:
    """Return runs for which a rebuild was requested on their page."""
    return Run.objects.filter(rebuild_requested=True)


def do_requested_rebuilds() -> int:
    """Carry out the requested rebuilds; a job of the clock. Returns their number.

    A request that cannot be carried out is dropped, and the run's page gives the reason.
    """
    requested = list(requested_rebuilds())
    for run in requested:
        try:
            do_rebuild_ended(run)
        except (RebuildRefused, OSError) as error:
            Run.objects.filter(pk=run.pk).update(rebuild_requested=False, journal_error=str(error))
            notify_on_commit(run.pk)
    return len(requested)


def _clear(run: Run) -> None:
    """Delete what was read from the journal, and reset the columns of `run` (not saved) that the ingest writes.

    Trajectories and groups are kept, superseded, until the journal has been read again: those announced again keep
    their permalinks, shares and annotations. `_drop_unannounced` then deletes the others.
    """
    for rows in (
        run.metrics,
        run.alarms,
        run.rewinds,
        run.notices,
        run.checkpoints,
        run.evaluations,
        run.batches,
        run.timeline,
    ):
        rows.all().delete()
    run.log_lines.all().delete()
    setting_changes.forget_answers(run)
    GeneralizationMatrix.objects.filter(run=run).delete()
    echo_trap_detector.forget(run)
    unprotected = run.trajectories.exclude(pk__in=_shared()).exclude(is_annotated())
    Turn.objects.filter(trajectory__in=unprotected).delete()
    TokenArrays.objects.filter(trajectory__in=unprotected).delete()
    run.trajectories.update(superseded=True)
    run.groups.update(superseded=True)
    blank = Run()
    for name in writer.WRITTEN:
        if name not in ("state", "resync_seq"):
            setattr(run, name, getattr(blank, name))
    run.rebuilds += 1


def _drop_unannounced(run: Run) -> None:
    """Delete trajectories that a rebuild did not find in the journal, unless they are shared or annotated."""
    gone = run.trajectories.filter(superseded=True).exclude(pk__in=_shared()).exclude(is_annotated())
    Turn.objects.filter(trajectory__in=gone).delete()
    gone.delete()
    run.groups.filter(superseded=True, trajectories__isnull=True).delete()


def _shared() -> QuerySet[ShareLink, Any]:
    return ShareLink.objects.values("trajectory")
