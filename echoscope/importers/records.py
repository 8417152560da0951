"""Records of JSON Lines, JSON and Parquet files, each with the place it was read from."""

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
"""Ending of compressed lines and documents, after their own: `.jsonl.gz`."""
_DESCRIPTIONS, _SETTINGS = {"metadata.json"}, "configs"
"""Files and a folder, of verifiers, that lie beside records and hold none."""
TRACES = "traces.jsonl"
"""Records of verifiers."""


class ImportFailed(EchoscopeError):
    """A file that cannot be imported. The message names the file, the line and what to do."""


@dataclass(frozen=True)
class Record:
    """One object of a file."""

    file: Path
    place: str
    fields: dict[str, Any]

    @property
    def where(self) -> str:
        """Its place for people: “rollouts/12.jsonl, line 3”."""
        return f"{self.file}, {self.place}"

    def fail(self, problem: str, advice: str = "") -> ImportFailed:
        """An error that names this record."""
        return ImportFailed(f"{self.where}: {problem}.{' ' + advice if advice else ''}")


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files to import, those of folders in natural order: 2.jsonl comes before 10.jsonl.

    Raises:
        ImportFailed: a path does not exist, or a folder holds no file of a known kind.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_file():
            found.append(path)
            continue
        if not path.is_dir():
            raise ImportFailed(f"{path} does not exist: name a file or a folder.")
        inside = [file for file in path.rglob("*") if suffix_of(file) in SUFFIXES and not _describes(file)]
        if not inside:
            raise ImportFailed(f"{path} holds no {', '.join(SUFFIXES)} file: name the folder that the tool wrote to.")
        found += sorted(inside, key=_natural)
    return found


def read_records(file: Path) -> Iterator[Record]:
    """The records of a file by its ending. Raises ImportFailed, naming the file and the line."""
    try:
        suffix = suffix_of(file)
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
    """The name of a file as it would be without compression: `1.jsonl` of `1.jsonl.gz`."""
    return file.stem if file.suffix.lower() == PACKED else file.name


def suffix_of(file: Path) -> str:
    """The ending of a file in lower case, of a compressed one without `.gz`; empty for other files in `.gz`."""
    suffix = Path(plain_name(file)).suffix.lower()
    return "" if file.suffix.lower() == PACKED and suffix not in (*LINES, *DOCUMENTS) else suffix


def open_text(file: Path) -> IO[str]:
    """A text file, perhaps compressed, in UTF-8, or in UTF-16 as its byte order mark says."""
    opened = gzip.open if file.suffix.lower() == PACKED else open
    with opened(file, "rb") as stream:
        mark = stream.read(2)
    encoding = "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    return cast(IO[str], opened(file, "rt", encoding=encoding))


def load_object(file: Path) -> dict[str, Any]:
    """The object of a JSON file; empty if there is no such file. Raises ImportFailed."""
    if not file.is_file():
        return {}
    with open_text(file) as stream:
        content = _parsed(file, stream.read(), "line 1")
    return dict(content) if isinstance(content, Mapping) else {}


def _describes(file: Path) -> bool:
    beside = (folder.parent for folder in file.parents if folder.name == _SETTINGS)
    return file.name in _DESCRIPTIONS or any((folder / TRACES).is_file() for folder in beside)


def _lines(file: Path) -> Iterator[Record]:
    with open_text(file) as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield _record(file, f"line {number}", _parsed(file, line, f"line {number}"))


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


def _parsed(file: Path, text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ImportFailed(f"{file}, {place}: its lists or objects are nested too deep to be read.") from None
    except ValueError as error:
        line = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) and place == "line 1" else place
        raise ImportFailed(
            f"{file}, {line}: it is not JSON ({error}). Repair the line or remove it; one that was cut off is of a "
            "program that was stopped while it wrote."
        ) from error


def _record(file: Path, place: str, content: Any) -> Record:
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else f"a {type(content).__name__}"
        raise ImportFailed(f"{file}, {place}: it is {kind}. Each record is an object with named fields.")
    return Record(file, place, content)


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
