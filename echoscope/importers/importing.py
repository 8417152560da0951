"""Import of files of other tools into the folder of a run, whose journal a site reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Literal

import echoscope.recording.recorder as recorder
from echoscope.importers.attempts import Attempt, ImportSummary, record_attempts
from echoscope.importers.formats import FORMATS, ImportOptions, format_of
from echoscope.importers.inspect_headers import InspectHeaders
from echoscope.importers.inspect_logs import headers_of, inspect_attempts, is_inspect_log, read_archive
from echoscope.importers.records import ARCHIVES, DOCUMENTS, TRACES, ImportFailed, files_of, load_object, read_records
from echoscope.importers.verifiers_traces import settings_beside
from echoscope.journal import FILE_NAME
from echoscope.recording.observation_images import FOLDER as IMAGES_FOLDER

Format = Literal["auto", "inspect", "verifiers", "verl", "art", "chat"]


def import_files(
    paths: Sequence[Path],
    folder: Path,
    *,
    kind: Format = "auto",
    title: str = "",
    options: ImportOptions | None = None,
    success_at: float = 1.0,
) -> ImportSummary:
    """Write a run with the attempts of these files.

    Args:
        paths: files, or folders whose files are read in natural order.
        folder: of the new run; it must not hold one.
        title: of the run; empty: task and model of Inspect logs that share them, else the name of the first path.
        success_at: reward from which on an attempt counts as a success, where its file does not say.
    Raises:
        ImportFailed: a file cannot be read or is of no known format, or the folder is in use. Nothing is left behind.
    """
    options = options or ImportOptions()
    files = files_of(paths)
    journal = folder / FILE_NAME
    if journal.exists():
        raise ImportFailed(f"{folder} already holds a run: name another folder with --out.")
    headers = headers_of(files, options, documents=kind in ("auto", "inspect"))
    attempts = _attempts(files, kind, options, headers)
    first = next(attempts, None)
    if first is None:
        raise ImportFailed(f"{files[0]} holds no attempts: it is empty.")
    images = folder / IMAGES_FOLDER
    had_images = images.exists()
    named = headers.title() if len(headers.headers) >= len(files) else ""
    run = recorder.init(
        title or named or paths[0].resolve().stem,
        folder=folder,
        environment=options.environment or first.environment,
        config={"imported_from": [str(path) for path in paths]}
        | load_object(files[0].with_name("metadata.json"))
        | settings_beside(files[0])
        | headers.settings(),
    )
    try:
        summary = record_attempts(run, chain([first], attempts), success_at)
    except ImportFailed:
        journal.unlink()
        if not had_images:
            shutil.rmtree(images, ignore_errors=True)
        with suppress(OSError):  # other files are in it
            folder.rmdir()
        raise
    run.finish(message=f"Trajectories imported: {summary.trajectories:,}.")
    return summary


def _attempts(
    files: Sequence[Path], kind: Format, options: ImportOptions, headers: InspectHeaders
) -> Iterator[Attempt]:
    for file in files:
        if file.suffix in ARCHIVES:
            yield from read_archive(file, options, headers)
            continue
        own: str = "" if kind == "auto" else kind
        if file.name == TRACES:  # episodes in the order of their ends, of several agents and, in training, of steps
            yield from sorted(
                _of_records(file, own, options, headers), key=lambda one: (one.iteration, one.split, one.suite)
            )
        else:
            yield from _of_records(file, own, options, headers)


def _of_records(file: Path, own: str, options: ImportOptions, headers: InspectHeaders) -> Iterator[Attempt]:
    for record in read_records(file):
        if own == "inspect" or (not own and file.suffix in DOCUMENTS and is_inspect_log(record)):
            if not is_inspect_log(record):
                raise record.fail("it is not an Inspect log", "Leave out --format to have the format found.")
            yield from inspect_attempts(record, options, headers)
            continue
        own = own or format_of(record)
        yield from FORMATS[own](record, options)
