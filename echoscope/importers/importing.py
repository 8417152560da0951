"""Imports files of other tools into the folder of a run, whose journal a site reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Literal

from echoscope.importers.attempts import Attempt, ImportSummary, default_success_at, record_attempts
from echoscope.importers.formats import FORMATS, ImportOptions, detect_format
from echoscope.importers.import_notes import ImportNotes
from echoscope.importers.inspect_headers import InspectHeaders
from echoscope.importers.inspect_logs import inspect_attempts, is_inspect_log, read_archive, read_headers
from echoscope.importers.records import (
    ARCHIVES,
    DOCUMENTS,
    TRACES,
    ImportFailed,
    find_files,
    load_object,
    plain_name,
    plain_suffix,
    read_records,
)
from echoscope.importers.verifiers_traces import evaluation_settings
from echoscope.journal import FILE_NAME
from echoscope.recording.journal_writer import JournalWriter
from echoscope.recording.observation_images import FOLDER as IMAGES_FOLDER
from echoscope.recording.recorder import Recorder

Format = Literal["auto", "inspect", "verifiers", "verl", "trl", "art", "chat"]


def import_files(
    paths: Sequence[Path],
    folder: Path,
    *,
    kind: Format = "auto",
    title: str = "",
    options: ImportOptions | None = None,
    success_at: float | None = None,
) -> ImportSummary:
    """Write a run with the attempts of these files.

    Args:
        paths: files, or folders whose files are read in natural order.
        folder: folder of the new run; must not contain a run.
        title: title of the run; empty: task and model if all Inspect logs share them, else the name of the first path.
        success_at: reward from which an attempt counts as a success if its file does not say; omitted: 1, or unknown
            if no file states success and the rewards are other numbers below 1.
    Raises:
        ImportFailed: a file cannot be read or has no known format, or the folder is in use. Nothing is left behind.
    """
    options = options or ImportOptions()
    files = find_files(paths)
    if (folder / FILE_NAME).exists():
        raise ImportFailed(f"{folder} already holds a run: name another folder with --out.")
    headers = read_headers(files, options, documents=kind in ("auto", "inspect"))
    attempts = _attempts(files, kind, options, headers)
    first = next(attempts, None)
    if first is None:
        raise ImportFailed(f"{files[0]} holds no attempts: it is empty.")
    threshold = success_at
    if success_at is None:
        threshold = default_success_at(chain([first], _attempts(files, kind, options, headers)))
    named = headers.title() if len(headers.headers) >= len(files) else ""
    settings = (
        {"imported_from": [str(path) for path in paths]}
        | load_object(files[0].with_name("metadata.json"))
        | evaluation_settings(files[0])
        | headers.settings()
    )
    notes = ImportNotes()
    with _nothing_left_behind(folder):
        run = Recorder(JournalWriter(folder, notes), options.environment or first.environment)
        run.begin(title or named or Path(plain_name(paths[0].resolve())).stem, settings)
        summary = record_attempts(run, chain([first], attempts), threshold, notes)
        run.finish(message=f"Trajectories imported: {summary.trajectories:,}.")
    summary.notes = notes.lines()
    if threshold is None:
        summary.notes.append(
            "Where no field states whether an attempt succeeded, its success is not known, as no reward is 1 or more. "
            "Pass --success-at with the reward of a success."
        )
    return summary


@contextmanager
def _nothing_left_behind(folder: Path) -> Iterator[None]:
    """Remove the files of a run that could not be written completely."""
    had_folder, had_images = folder.exists(), (folder / IMAGES_FOLDER).exists()
    try:
        yield
    except BaseException:
        (folder / FILE_NAME).unlink(missing_ok=True)
        if not had_images:
            shutil.rmtree(folder / IMAGES_FOLDER, ignore_errors=True)
        if not had_folder:
            with suppress(OSError):
                folder.rmdir()
        raise


def _attempts(
    files: Sequence[Path], kind: Format, options: ImportOptions, headers: InspectHeaders
) -> Iterator[Attempt]:
    for file in files:
        if plain_suffix(file) in ARCHIVES:
            yield from read_archive(file, options, headers)
            continue
        chosen_format: str = "" if kind == "auto" else kind
        if plain_name(file) == TRACES:  # ordered by their ends: several agents' and, in training, several steps'
            yield from sorted(
                _of_records(file, chosen_format, options, headers),
                key=lambda attempt: (attempt.iteration, attempt.split, attempt.suite),
            )
        else:
            yield from _of_records(file, chosen_format, options, headers)


def _of_records(file: Path, chosen_format: str, options: ImportOptions, headers: InspectHeaders) -> Iterator[Attempt]:
    for record in read_records(file):
        if chosen_format == "inspect" or (
            not chosen_format and plain_suffix(file) in DOCUMENTS and is_inspect_log(record)
        ):
            if not is_inspect_log(record):
                raise record.fail("it is not an Inspect log", "Leave out --format to have the format found.")
            yield from inspect_attempts(record, options, headers)
            continue
        chosen_format = chosen_format or detect_format(record)
        try:
            yield from FORMATS[chosen_format](record, options)
        except ImportFailed:
            raise
        except Exception as error:
            raise record.fail(f"it cannot be read ({type(error).__name__}: {error})") from error
