"""Reads files of JSON records: a JSON list of objects, or one object per line (JSONL).

Error messages name the file and the line but never repeat its content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from envs.support import data_files

MAX_BYTES = 4 * data_files.GIB
"""Maximum size of a file of records."""
MAX_LINE = 16 * data_files.MIB
"""Maximum number of characters of a record in a JSONL file."""
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class RecordsError(ValueError):
    """A file of records that cannot be read. The message says where and what to do."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        super().__init__(f"{path}{f', line {line}' if line else ''}: {problem}")


def stamp(path: Path) -> tuple[int, int]:
    """Return modification time and size of the file, a cache key. Raises RecordsError if it cannot be read."""
    try:
        status = data_files.status(path, MAX_BYTES)
    except data_files.DataFileError as error:
        raise _unreadable(path, error) from None
    return status.st_mtime_ns, status.st_size


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield all records with the number of their first line, from 1. Raises RecordsError."""
    try:
        with TextIOWrapper(data_files.open_binary(path, MAX_BYTES), encoding="utf-8-sig") as file:
            beginning = file.read(4096).lstrip()
            file.seek(0)
            if beginning.startswith("["):
                yield from _listed(path, file.read())
            else:
                for number, line in enumerate(_lines(path, file), start=1):
                    if line.strip():
                        value, end = _decode(path, line.strip(), 0, number)
                        if end != len(line.strip()):
                            raise RecordsError(path, number, "text follows the record; write one object per line")
                        yield number, _record(path, number, value)
    except UnicodeDecodeError:
        raise RecordsError(path, None, "is not UTF-8 text; save it as UTF-8") from None
    except data_files.DataFileError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: data_files.DataFileError) -> RecordsError:
    return RecordsError(path, None, f"cannot be read ({error}); give the path of an existing file")


def _lines(path: Path, file: TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a JSONL file, none longer than MAX_LINE."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise RecordsError(path, number, f"is longer than {MAX_LINE:,} characters; write one object per line")
        yield line


def _listed(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a JSON list, decoded one at a time to limit memory."""
    position, line = text.index("[") + 1, 1
    counted, expected = 0, "a record or ]"
    while True:
        position = _end_of_blank(text, position)
        line += text.count("\n", counted, position)
        counted = position
        if expected != "a record" and text[position : position + 1] == "]":
            break
        if expected == ", or ]":
            if text[position : position + 1] != ",":
                raise RecordsError(path, line, "the list is truncated or lacks a comma here; it must be complete JSON")
            position, expected = position + 1, "a record"
            continue
        value, end = _decode(path, text, position, line)
        yield line, _record(path, line, value)
        position, expected = end, ", or ]"
    if _end_of_blank(text, position + 1) != len(text):
        raise RecordsError(path, line, "text follows the list; the file must be one JSON list")


def _end_of_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _decode(path: Path, text: str, position: int, line: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except ValueError as error:  # not JSON, or a number beyond what Python reads
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
        problem = f"is not JSON ({reason}); a file of records is a JSON list of objects or has one object per line"
        raise RecordsError(path, line, problem) from None
    except RecursionError:
        raise RecordsError(path, line, "is nested too deeply for a record; remove it") from None


def _record(path: Path, line: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordsError(path, line, "a record must be a JSON object with named fields")
    return value
