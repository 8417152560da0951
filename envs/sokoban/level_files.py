"""Level files: the Boxoban format, plain XSB collections, and folders of them; round trips are byte-exact.

A level is a run of rows; text between levels (heads such as `; 12`, titles, blank lines) is preserved, in UTF-8 or any
8-bit encoding.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path

from envs.sokoban.levels import XSB, Level, LevelError, parse
from envs.support import data_files

ENDINGS = (".txt", ".xsb", ".sok")
"""Endings of level files in a folder, case-insensitive."""
MAX_BYTES = 64 * data_files.MIB
"""Maximum size of a level file."""
MAX_FILES = 20_000
"""Maximum number of level files in a folder."""
MAX_LISTED_FAULTS = 10
"""Number of faults listed in full by an error message."""

_FLOOR = " -_"
_ROW = frozenset(XSB + _FLOOR)
_MARK = "\ufeff"


class LevelFileError(ValueError):
    """A file or folder with unusable levels. The message names every faulty level (ten in full) and the reasons."""


@dataclass(frozen=True)
class LevelText:
    """A level as written in a file: preceding text, its rows with line ends, and its first line number."""

    before: str
    rows: str
    line: int
    level: Level


@dataclass(frozen=True)
class LevelFile:
    """The levels of a file in order, the text after the last level, and the encoding of both."""

    texts: tuple[LevelText, ...]
    after: str = ""
    encoding: str = "utf-8"

    @property
    def levels(self) -> list[Level]:
        """Return the start positions, in the order of the file."""
        return [text.level for text in self.texts]

    def text(self) -> str:
        """Return the exact text of the file."""
        return "".join(text.before + text.rows for text in self.texts) + self.after


def parse_levels(text: str, name: str = "the text") -> LevelFile:
    """Parse the text of a level file. Raises LevelFileError that names every faulty level, or if it has none."""
    texts: list[LevelText] = []
    faults: list[str] = []
    found, after = _split_levels(text)
    for number, (before, rows, line) in enumerate(found, start=1):
        try:
            texts.append(LevelText(before, rows, line, parse(rows.removeprefix(_MARK))))
        except LevelError as error:
            faults.append(f"level {number} (line {line}): {error}")
    if faults:
        more = f"; and {len(faults) - MAX_LISTED_FAULTS} more" if len(faults) > MAX_LISTED_FAULTS else ""
        listed = "; ".join(faults[:MAX_LISTED_FAULTS]) + more
        raise LevelFileError(
            f"{name}: {len(faults)} of {len(found)} levels cannot be played: {listed}. Fix or remove them."
        )
    if not texts:
        raise LevelFileError(
            f"{name}: no level found. Levels are rows of {XSB!r} (XSB), enclosed by walls and separated by blank lines."
        )
    return LevelFile(tuple(texts), after)


def _split_levels(text: str) -> tuple[list[tuple[str, str, int]], str]:
    """Return the preceding text, the rows and the first line number of each level, and the text after the last one."""
    found: list[tuple[str, str, int]] = []
    before = ""
    lines = enumerate(io.StringIO(text, newline=""), start=1)
    for is_level, numbered in groupby(lines, key=lambda line: _is_row(line[1])):
        numbers, contents = zip(*numbered, strict=True)
        if is_level:
            found.append((before, "".join(contents), numbers[0]))
            before = ""
        else:
            before = "".join(contents)
    return found, before


def read_levels(path: str | Path) -> LevelFile:
    """Read a level file, cached until it changes. Raises LevelFileError."""
    path = Path(path)
    facts = _stat(path)
    return _read(path, facts.st_mtime_ns, facts.st_size)


def write_levels(path: str | Path, file: LevelFile) -> None:
    """Write a level file; one from `read_levels` is written with the same bytes."""
    Path(path).write_bytes(file.text().encode(file.encoding))


def find_levels(path: str | Path) -> list[Level]:
    """Return all levels of a file, or of the level files in a folder (recursive), ordered by name.

    Raises LevelFileError if there are none, or naming the faulty levels of all files.
    """
    levels: list[Level] = []
    faults: list[str] = []
    for file in _paths(Path(path)):
        try:
            levels += read_levels(file).levels
        except LevelFileError as error:
            faults.append(str(error))
    if faults:
        more = f"\nand {len(faults) - MAX_LISTED_FAULTS} more files" if len(faults) > MAX_LISTED_FAULTS else ""
        raise LevelFileError("\n".join(faults[:MAX_LISTED_FAULTS]) + more)
    return levels


def fingerprint(path: str | Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, modification time and size of the file, or of every level file in the folder.

    Raises LevelFileError.
    """
    facts = [(str(file), _stat(file)) for file in _paths(Path(path))]
    return tuple((name, fact.st_mtime_ns, fact.st_size) for name, fact in facts)


def _paths(path: Path) -> list[Path]:
    """Return the file itself, or the level files in the folder (recursive)."""
    if not path.is_dir():
        return [path]
    files = (file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file())
    paths = sorted(islice(files, MAX_FILES + 1))
    if len(paths) > MAX_FILES:
        raise LevelFileError(f"{path}: more than {MAX_FILES:,} level files in this folder. Give a smaller one.")
    if not paths:
        raise LevelFileError(f"{path}: no level file in this folder (looked for {', '.join(ENDINGS)}).")
    return paths


def _stat(path: Path) -> os.stat_result:
    try:
        return data_files.status(path, MAX_BYTES)
    except data_files.DataFileError as error:
        raise LevelFileError(f"{path}: {error}. Give a file of levels or a folder of such files.") from None


def _is_row(content: str) -> bool:
    """Return True if a line belongs to a level: it starts with a wall, or has only characters of levels.

    A line that starts with a wall and has other characters is a fault in a level, not text between levels.
    """
    bare = content.removeprefix(_MARK).rstrip("\r\n")
    inner = bare.strip(_FLOOR + "\t")
    return bool(inner) and (inner[0] == "#" or _ROW.issuperset(bare))


@lru_cache(maxsize=1024)
def _read(path: Path, changed: int, size: int) -> LevelFile:
    """Read the file; `changed` and `size` are part of the cache key."""
    try:
        data = data_files.read_bytes(path, MAX_BYTES)
    except data_files.DataFileError as error:
        raise LevelFileError(f"{path}: {error}. Give a readable level file.") from None
    try:
        text, encoding = data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:  # names of authors in an older encoding; Latin-1 reads any byte
        text, encoding = data.decode("latin-1"), "latin-1"
    return replace(parse_levels(text, str(path)), encoding=encoding)
