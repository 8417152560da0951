"""Downloads of a whole run: its trajectories, metrics or journal, up to the site's maximum size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from trainer.journal.protocol import JOURNAL_FILE
from webapp.core.quotas import quota
from webapp.runs import run_files
from webapp.runs.models import Run
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.trajectories.exports import export_run
from webapp.trajectories.exports.download_refused import DownloadRefused
from webapp.trajectories.models import TrajectoryQuerySet

RunExportKind = Literal["parquet", "jsonl", "csv", "metrics.parquet", "metrics.csv", "journal"]
KINDS: tuple[str, ...] = get_args(RunExportKind)
PARQUET, LINES = "application/vnd.apache.parquet", "application/x-ndjson; charset=utf-8"
JOURNAL = "journal"
MEGABYTE = 1_000_000

ExportFunction = Callable[[export_run.Export], Iterator[bytes]]
_FORMATS: dict[str, tuple[ExportFunction, str, str]] = {
    "parquet": (export_run.parquet, PARQUET, "trajectories.parquet"),
    "jsonl": (export_run.json_lines, LINES, "trajectories.jsonl"),
    "csv": (export_run.trajectories_csv, "text/csv; charset=utf-8", "trajectories.csv"),
    "metrics.parquet": (export_run.metrics_parquet, PARQUET, "metrics.parquet"),
    "metrics.csv": (export_run.metrics_csv, "text/csv; charset=utf-8", "metrics.csv"),
}
OF_TRAJECTORIES = {"parquet", "jsonl", "csv"}
"""Exports to which the explorer's filters apply."""
WITH_TURNS = {"parquet", "jsonl"}
"""Exports with an estimate of their size before the first byte; the others are small."""


class ExportTooLarge(Exception):
    """An export grew beyond the maximum although its estimate was below it."""


@dataclass(frozen=True)
class Download:
    """A file to stream."""

    chunks: Iterator[bytes]
    content_type: str
    name: str
    compressible: bool


def run_download(run: Run, kind: str, trajectories: TrajectoryQuerySet, *, inside: bool) -> Download:
    """Return a download of trajectories or metrics, in one of the formats of KINDS but the journal.

    Args:
        trajectories: the run's trajectories to export.
        inside: True if the reader is in the run's team.
    Raises:
        DownloadRefused: the download would be larger than the site allows.
    """
    if kind in WITH_TURNS and (reason := _too_large(trajectories)):
        raise DownloadRefused(413, reason)
    make, content_type, file = _FORMATS[kind]
    name = f"{run.slug}-{file}"
    chunks = _limited(make(export_run.Export(run, inside, trajectories)), name)
    return Download(chunks, content_type, name, content_type != PARQUET)  # Parquet is compressed already


def has_journal(run: Run) -> bool:
    """Return True if journal_download() has it. Files of runs that were sent to the site are not kept."""
    if run.imported:
        return UntrustedFolder(run.folder).has(JOURNAL_FILE)
    return run_files.journal(run) is not None


def journal_download(run: Run) -> Download:
    """Return the journal of a run, for members of its team. Raises DownloadRefused if it is not on this machine."""
    blocks = run_files.journal(run) if has_journal(run) else None
    if blocks is None:
        raise DownloadRefused(404, "The journal of this run is not on this machine: it is where the run was trained.")
    return Download(export_run.journal(blocks), LINES, f"{run.slug}-{JOURNAL_FILE}", compressible=True)


def _too_large(trajectories: TrajectoryQuerySet) -> str:
    """Return the reason why they are not exported at once; empty if they may be."""
    limit = quota("EXPORT_MB")
    size = export_run.estimated_bytes(trajectories) / MEGABYTE if limit else 0
    if size <= limit:
        return ""
    return (
        f"This export would have about {size:,.0f} MB, and at most {limit:,} MB are exported at once "
        "(ECHOSCOPE_MAX_EXPORT_MB). Export it in parts: filter the list of attempts, for example by iterations, "
        "and choose “Export these” there."
    )


def _limited(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield chunks up to the maximum size, then break the connection: no client mistakes a part for the whole."""
    limit, sent = quota("EXPORT_MB") * MEGABYTE, 0
    for chunk in chunks:
        sent += len(chunk)
        if 0 < limit < sent:
            raise ExportTooLarge(f"{name} was broken off at {sent:,} bytes: ECHOSCOPE_MAX_EXPORT_MB")
        yield chunk
