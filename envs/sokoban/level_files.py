"""Files of Sokoban levels: the Boxoban format, plain XSB collections, and folders of them; written back byte for byte.

A level is a run of rows; whatever stands between two levels (heads such as `; 12`, titles, blank lines) is kept as it
is. What makes a level playable is decided in levels.py.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envs.sokoban.levels import XSB, Level, LevelError, parse

ENDINGS = (".txt", ".xsb", ".sok")
"""Files of a folder that are read as levels, in any case."""
NAMED = 10
"""Faults that one error message tells in full."""

_FLOOR = " -_"
_ROW = frozenset(XSB + _FLOOR)
_MARK = "\ufeff"


class LevelFileError(ValueError):
    """A file or folder whose levels cannot be used. The message names every faulty level (ten in full) and why."""


@dataclass(frozen=True)
class LevelText:
    """A level as it stands in a file: what precedes it, its rows, each with its line end, and the line it starts on."""

    before: str
    rows: str
    line: int
    level: Level


@dataclass(frozen=True)
class LevelFile:
    """The levels of a file in order, and what follows the last one."""

    texts: tuple[LevelText, ...]
    after: str = ""

    @property
    def levels(self) -> list[Level]:
        """The start positions, in the order of the file."""
        return [text.level for text in self.texts]

    def text(self) -> str:
        """The file as it was written, to the last character."""
        return "".join(text.before + text.rows for text in self.texts) + self.after


def level_file(levels: Iterable[Level]) -> LevelFile:
    """A file of these levels in the Boxoban format: each under a head `; number`, a blank line after it."""
    texts, line = [], 1
    for number, level in enumerate(levels):
        rows = "\n".join(level.rows()) + "\n"
        before = f"; {number}\n" if number == 0 else f"\n; {number}\n"
        line += before.count("\n")
        texts.append(LevelText(before, rows, line, level))
        line += level.height
    return LevelFile(tuple(texts), "\n" if texts else "")


def parse_levels(text: str, name: str = "the text") -> LevelFile:
    """The levels in the text of a file. Raises LevelFileError naming every faulty level, or where there is none."""
    texts: list[LevelText] = []
    faults: list[str] = []
    before: list[str] = []
    rows: list[str] = []
    number = 0

    def close(line: int) -> None:
        """The rows gathered so far are a level; it ended before this line."""
        nonlocal number
        if rows:
            start = line - len(rows)
            try:
                level = parse("".join(rows).removeprefix(_MARK))
            except LevelError as error:
                faults.append(f"level {number + 1} (line {start}): {error}")
            else:
                texts.append(LevelText("".join(before), "".join(rows), start, level))
            number += 1
            before.clear()
            rows.clear()

    line = 0
    for line, content in enumerate(io.StringIO(text, newline=""), start=1):
        if _is_row(content):
            rows.append(content)
        else:
            close(line)
            before.append(content)
    close(line + 1)
    if faults:
        told = "; ".join(faults[:NAMED]) + (f"; and {len(faults) - NAMED} more" if len(faults) > NAMED else "")
        raise LevelFileError(
            f"{name}: {len(faults)} of {number} levels cannot be played: {told}. Mend them or take them out."
        )
    if not texts:
        raise LevelFileError(
            f"{name}: no level in it. Levels are rows of {XSB!r} (XSB), walls all round, blank lines between them."
        )
    return LevelFile(tuple(texts), "".join(before))


def read_levels(path: str | Path) -> LevelFile:
    """The levels of one file; a file that has not changed is read once. Raises LevelFileError."""
    path = Path(path)
    facts = _stat(path)
    return _read(path, facts.st_mtime_ns, facts.st_size)


def write_levels(path: str | Path, file: LevelFile) -> None:
    """Write the file; what `read_levels` read comes out with the same bytes."""
    Path(path).write_bytes(file.text().encode("utf-8"))


def find_levels(path: str | Path) -> list[Level]:
    """All levels of a file, or of the level files in a folder and below it, in the order of their names.

    Raises LevelFileError where there is none, or naming the faulty levels of every file: none is left out silently.
    """
    levels: list[Level] = []
    faults: list[str] = []
    for found in _paths(Path(path)):
        try:
            levels += read_levels(found).levels
        except LevelFileError as error:
            faults.append(str(error))
    if faults:
        raise LevelFileError(
            "\n".join(faults[:NAMED]) + (f"\nand {len(faults) - NAMED} more files" if len(faults) > NAMED else "")
        )
    return levels


def fingerprint(path: str | Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time of change and size of the file, or of every level file in the folder. Raises LevelFileError."""
    facts = [(str(found), _stat(found)) for found in _paths(Path(path))]
    return tuple((name, fact.st_mtime_ns, fact.st_size) for name, fact in facts)


def _paths(path: Path) -> list[Path]:
    """The file itself, or the level files in the folder and below it."""
    if not path.is_dir():
        return [path]
    paths = sorted(found for found in path.rglob("*") if found.suffix.lower() in ENDINGS and found.is_file())
    if not paths:
        raise LevelFileError(f"{path}: no file of levels in this folder (looked for {', '.join(ENDINGS)}).")
    return paths


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise LevelFileError(f"{path}: {error.strerror}. Give a file of levels or a folder of such files.") from None


def _is_row(content: str) -> bool:
    """Whether a line belongs to a level: it begins with a wall, or holds nothing but characters of levels.

    A line that begins with a wall and holds something else is a fault in a level, not a remark between two.
    """
    bare = content.removeprefix(_MARK).rstrip("\r\n")
    inner = bare.strip(_FLOOR + "\t")
    return bool(inner) and (inner[0] == "#" or _ROW.issuperset(bare))


@lru_cache(maxsize=1024)
def _read(path: Path, changed: int, size: int) -> LevelFile:
    """The file at its present state: `changed` and `size` only tell one state from another."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise LevelFileError(f"{path}: {error.strerror}. Give a file of levels that may be read.") from None
    except UnicodeDecodeError as error:
        raise LevelFileError(
            f"{path}: byte {error.start + 1} is no UTF-8 text, so this is no file of levels."
        ) from None
    return parse_levels(text, str(path))
