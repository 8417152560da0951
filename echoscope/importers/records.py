"""Records of JSON Lines, JSON and Parquet files, each with its place in the file."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from echoscope.errors import EchoscopeError

LINES, DOCUMENTS, TABLES, ARCHIVES = (".jsonl", ".ndjson"), (".json",), (".parquet",), (".eval",)
SUFFIXES = (*LINES, *DOCUMENTS, *TABLES, *ARCHIVES)
PACKED = ".gz"
"""Ending of compressed lines and documents, after the ending of the content: `.jsonl.gz`."""
BYTE_ORDER_MARK = "\ufeff"
_DESCRIPTIONS, _SETTINGS = {"metadata.json"}, "configs"
"""Files and a folder of verifiers that contain no records."""
TRACES = "traces.jsonl"
"""Records of verifiers."""


class ImportFailed(EchoscopeError):
    """A file that cannot be imported. The message names the file, the line and what to do."""


@dataclass(frozen=True)
class Record:
    """One object of a file."""

    file: Path
    location: str
    fields: dict[str, Any]

    @property
    def where(self) -> str:
        """Its place, for messages: “rollouts/12.jsonl, line 3”."""
        return f"{self.file}, {self.location}"

    def fail(self, problem: str, advice: str = "") -> ImportFailed:
        """Return an error that names this record."""
        return ImportFailed(f"{self.where}: {problem}.{' ' + advice if advice else ''}")


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files to import; files of folders are in natural order, with 2.jsonl before 10.jsonl.

    Raises:
        ImportFailed: a path does not exist, or a folder contains no file of a known kind.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_file():
            files.append(path)
            continue
        if not path.is_dir():
            raise ImportFailed(f"{path} does not exist: name a file or a folder.")
        inside = [file for file in path.rglob("*") if plain_suffix(file) in SUFFIXES and not _describes(file)]
        if not inside:
            raise ImportFailed(f"{path} holds no {', '.join(SUFFIXES)} file: name the folder that the tool wrote to.")
        files += sorted(inside, key=_natural)
    return files


def read_records(file: Path) -> Iterator[Record]:
    """Yield the records of a file according to its ending. Raises ImportFailed, naming the file and the line."""
    try:
        suffix = plain_suffix(file)
        if suffix in TABLES:
            yield from _table(file)
        elif suffix in DOCUMENTS:
            yield from _document(file)
        elif suffix in LINES:
            yield from _lines(file)
        else:
            raise ImportFailed(f"{file} is not one of {', '.join(SUFFIXES)}: convert it to JSON Lines.")
    except OSError as error:
        raise ImportFailed(f"{file} cannot be read: {error.strerror or error}.") from error
    except (EOFError, zlib.error) as error:
        raise ImportFailed(f"{file} is not a complete gzip file: {error}. Copy it again.") from error
    except UnicodeDecodeError as error:
        raise ImportFailed(f"{file} is neither UTF-8 nor UTF-16: convert it, or name another file.") from error


def plain_name(file: Path) -> str:
    """Return the name of a file without the ending of its compression: `1.jsonl` for `1.jsonl.gz`."""
    return file.stem if file.suffix.lower() == PACKED else file.name


def plain_suffix(file: Path) -> str:
    """Return the ending of a file in lower case, without `.gz`; empty for other files in `.gz`."""
    suffix = Path(plain_name(file)).suffix.lower()
    return "" if file.suffix.lower() == PACKED and suffix not in (*LINES, *DOCUMENTS) else suffix


def open_text(file: Path) -> IO[str]:
    """Open a text file, perhaps compressed, in UTF-8, or in UTF-16 if it has that byte order mark."""
    opened = gzip.open if file.suffix.lower() == PACKED else open
    with opened(file, "rb") as stream:
        mark = stream.read(2)
    encoding = "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    return cast(IO[str], opened(file, "rt", encoding=encoding))


def load_object(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if there is no such file. Raises ImportFailed."""
    if not file.is_file():
        return {}
    with open_text(file) as stream:
        content = _parsed(file, stream.read(), "line 1")
    return dict(content) if isinstance(content, Mapping) else {}


def _describes(file: Path) -> bool:
    parents = (folder.parent for folder in file.parents if folder.name == _SETTINGS)
    return file.name in _DESCRIPTIONS or any((folder / TRACES).is_file() for folder in parents)


def _lines(file: Path) -> Iterator[Record]:
    with open_text(file) as stream:
        for number, line in enumerate(stream, 1):
            text = line.removeprefix(BYTE_ORDER_MARK)  # of a file that was appended to another one
            if text.strip():
                yield _record(file, f"line {number}", _parsed(file, text, f"line {number}"))


def _document(file: Path) -> Iterator[Record]:
    with open_text(file) as stream:
        content = _parsed(file, stream.read(), "line 1")
    for number, item in enumerate(content if isinstance(content, list) else [content], 1):
        yield _record(file, f"record {number}", item)


def _table(file: Path) -> Iterator[Record]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportFailed(
            f"{file} is a Parquet file, which needs pyarrow: pip install 'echoscope[parquet]', or convert it to JSON "
            "Lines."
        ) from error
    try:
        table = parquet.ParquetFile(file)
        number = 0
        for batch in table.iter_batches(batch_size=256):
            for row in batch.to_pylist():
                number += 1
                yield _record(file, f"row {number}", row)
    except ArrowException as error:
        raise ImportFailed(f"{file} is not a complete Parquet file: {error}. Copy it again.") from error


def _parsed(file: Path, text: str, location: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ImportFailed(f"{file}, {location}: its lists or objects are nested too deep to be read.") from None
    except ValueError as error:
        line = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) and location == "line 1" else location
        raise ImportFailed(
            f"{file}, {line}: it is not JSON ({error}). Repair the line or remove it; one that was cut off is of a "
            "program that was stopped while it wrote."
        ) from error


def _record(file: Path, location: str, content: Any) -> Record:
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else f"a {type(content).__name__}"
        raise ImportFailed(f"{file}, {location}: it is {kind}. Each record is an object with named fields.")
    return Record(file, location, content)


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
