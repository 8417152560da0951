"""Logs of Inspect evaluations, as JSON or as .eval archives."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from echoscope.importers.attempts import Attempt
from echoscope.importers.formats import ImportOptions
from echoscope.importers.inspect_headers import InspectHeader, InspectHeaders
from echoscope.importers.records import ARCHIVES, DOCUMENTS, ImportFailed, Record, open_text, plain_suffix, read_records
from echoscope.importers.zip_members import ZstandardMissing, read_member
from echoscope.recording.content_blocks import ConversationError
from echoscope.recording.conversation import read_conversation
from echoscope.recording.message_images import with_attachments

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partial, incorrect, no answer."""
_BEGINNING = 2**20
"""Characters of a JSON file within which the header of a log begins."""
_READ = {"messages", "id", "epoch", "events", "attachments", "store"}


def is_inspect_log(record: Record) -> bool:
    """Return True if the object of a JSON file is an Inspect log."""
    return isinstance(record.fields.get("eval"), dict) and "status" in record.fields


def read_headers(files: Sequence[Path], options: ImportOptions, *, documents: bool) -> InspectHeaders:
    """Return the headers of the logs among the files. Raises ImportFailed.

    Args:
        documents: True if JSON files may be logs; archives always may.
    """
    headers = []
    for file in files:
        if plain_suffix(file) in ARCHIVES:
            with _archive(file) as archive:
                headers.append(_header(archive, file))
        elif documents and plain_suffix(file) in DOCUMENTS and _begins_as_log(file):
            logs = [record for record in read_records(file) if is_inspect_log(record)]
            headers += [
                InspectHeader.of_log(str(file) if len(logs) == 1 else record.where, record.fields) for record in logs
            ]
    return InspectHeaders(headers, options.environment)


def inspect_attempts(record: Record, options: ImportOptions, headers: InspectHeaders) -> Iterator[Attempt]:
    """Yield the samples of a log in one JSON file."""
    samples = record.fields.get("samples")
    if not isinstance(samples, list):
        raise record.fail(
            "the log has no samples", "It is a header alone: name the whole log, or rerun with --log-samples."
        )
    if not samples:
        raise record.fail(f"the evaluation ended before any of its samples (status {record.fields['status']})")
    header = InspectHeader.of_log(record.where, record.fields)
    for number, sample in enumerate(samples, 1):
        yield _attempt(Record(record.file, f"sample {number}", sample), header, options, headers)


def read_archive(file: Path, options: ImportOptions, headers: InspectHeaders) -> Iterator[Attempt]:
    """Yield the samples of a log in an .eval archive. Raises ImportFailed."""
    with _archive(file) as archive:
        header = _header(archive, file)
        names = [name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json")]
        for name in sorted(names):
            yield _attempt(Record(file, name, json.loads(read_member(archive, name))), header, options, headers)


@contextmanager
def _archive(file: Path) -> Iterator[zipfile.ZipFile]:
    """Open an .eval archive. Raises ImportFailed, also for errors while it is read."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except ZstandardMissing as error:
        raise ImportFailed(
            f"{file} is compressed with Zstandard, which needs zstandard before Python 3.14: pip install "
            f"'echoscope[inspect]', or write it as JSON with `inspect log convert {file} --to json --output-dir "
            "json-logs`, and import json-logs."
        ) from error
    except NotImplementedError as error:
        raise ImportFailed(
            f"{file} is compressed in a way that this Python cannot read ({error}): write it as JSON with "
            f"`inspect log convert {file} --to json --output-dir json-logs`, and import json-logs."
        ) from error
    except (zipfile.BadZipFile, ValueError, AttributeError) as error:
        raise ImportFailed(f"{file} is not a complete .eval archive ({error}): copy it again.") from error


def _header(archive: zipfile.ZipFile, file: Path) -> InspectHeader:
    """Return the header of a complete log, or of a log whose evaluation was stopped."""
    names = archive.namelist()
    member = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
    if member is None:
        raise ImportFailed(f"{file} has no header.json: it is not an Inspect log.")
    return InspectHeader.of_log(str(file), json.loads(read_member(archive, member)))


def _begins_as_log(file: Path) -> bool:
    """Return True if the file may be a log, whose header precedes its samples: other files need not be read twice."""
    try:
        with open_text(file) as stream:
            return '"eval"' in stream.read(_BEGINNING)
    except (OSError, ValueError, EOFError, zlib.error):  # read_records names the file
        return True


def _attempt(record: Record, header: InspectHeader, options: ImportOptions, headers: InspectHeaders) -> Attempt:
    fields = record.fields
    if not isinstance(fields, dict) or not isinstance(fields.get("messages"), list):
        raise record.fail("the sample has no messages", "Export the log again with `inspect log dump`.")
    try:
        attachments = fields.get("attachments")
        conversation = read_conversation(
            with_attachments(fields["messages"], attachments if isinstance(attachments, Mapping) else {})
        )
    except ConversationError as problem:
        raise record.fail(str(problem), "Export the log again with `inspect log dump`.") from None
    suite = headers.suite(header)
    terms = _scores(fields.get("scores"))
    error = fields.get("error")
    reward = next(iter(terms.values()), None)
    return Attempt(
        record=record,
        conversation=conversation,
        group=f"{suite} · {fields.get('id', record.location)}",
        split=options.split or "eval",
        suite=suite if (options.split or "eval") == "eval" else "",
        environment=headers.environment(header),
        reward=reward,
        success=None if reward is None else reward >= 1.0,
        terms=dict(list(terms.items())[:1]),
        tokens=_output_tokens(fields.get("model_usage")),
        error=str(error.get("message", error)) if isinstance(error, Mapping) else str(error or ""),
        truncated=bool(fields.get("limit")),
        extra={name: value for name, value in fields.items() if name not in _READ and value is not None},
    )


def _scores(scores: Any) -> dict[str, float]:
    """Return scorer → its value as a number. The first is the reward; the sample's extra contains all.

    Values that are not a grade, a finite number or a truth value are left out.
    """
    scores_by_name: dict[str, float] = {}
    for name, score in scores.items() if isinstance(scores, Mapping) else ():
        value = score.get("value") if isinstance(score, Mapping) else score
        if isinstance(value, bool | int | float) and math.isfinite(value):
            scores_by_name[str(name)] = float(value)
        elif isinstance(value, str) and value in _GRADES:
            scores_by_name[str(name)] = _GRADES[value]
    return scores_by_name


def _output_tokens(usage: Any) -> int:
    models = usage.values() if isinstance(usage, Mapping) else ()
    return sum(int(model.get("output_tokens") or 0) for model in models if isinstance(model, Mapping))
