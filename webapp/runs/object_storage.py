"""Copies of a run's folder in object storage: made piece by piece, fetched where the folder is missing, forgotten.

When that is done is decided by keeper.py and the supervisor; which storage by ECHOSCOPE_STORAGE. A copy is a manifest,
the files that it names, and the journal in parts, for objects cannot be appended to. The manifest is written last: what
it names is there.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.core.files.storage.handler import InvalidStorageError

from trainer.journal.protocol import (
    CHECKPOINT_STATE,
    CHECKPOINTS_FOLDER,
    JOURNAL_FILE,
    PID_FILE,
    TOKEN_PIPE,
    WATCH_FILE,
)

MANIFEST = "manifest.json"
TOKEN = "copy.txt"
_OF_THIS_MACHINE = {JOURNAL_FILE, TOKEN, WATCH_FILE, PID_FILE, TOKEN_PIPE}
BLOCK = 1 << 20


@dataclass
class Manifest:
    """What a copy holds: (bytes, time of change) of each file by its path, and the ends of the journal's parts."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    journal: list[int] = field(default_factory=list)

    @property
    def checkpoints(self) -> list[int]:
        """Iterations whose checkpoints it holds, ascending."""
        names = (path.split("/") for path in self.files)
        return sorted(int(name[1]) for name in names if name[0] == CHECKPOINTS_FOLDER and name[-1] == CHECKPOINT_STATE)

    def parts(self) -> Iterator[tuple[str, int]]:
        """(name, bytes) of the journal's parts in order."""
        for start, end in zip([0, *self.journal], self.journal, strict=False):
            yield f"journal/{start:015d}", end - start


def configured_storage() -> Storage | None:
    """Where copies go; None where no storage was named."""
    try:
        return storages["runs"]
    except InvalidStorageError:
        return None


def failures() -> tuple[type[Exception], ...]:
    """What a storage raises when it is away, refuses, or holds something else than a copy."""
    known: list[type[Exception]] = [OSError, ValueError, LookupError, TypeError]
    if "botocore" in sys.modules:
        from boto3.exceptions import Boto3Error  # type: ignore[import-untyped]
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

        known += [BotoCoreError, ClientError, Boto3Error]
    return tuple(known)


def read_manifest(storage: Storage, slug: str) -> Manifest | None:
    """What the copy of that run holds; None where there is none. Raises OSError and what the storage raises."""
    name = f"{slug}/{MANIFEST}"
    if not storage.exists(name):
        return None
    with storage.open(name) as file:
        told: dict[str, Any] = json.loads(file.read())
    return Manifest({path: (size, changed) for path, (size, changed) in told["files"].items()}, told["journal"])


def copy(folder: Path, storage: Storage, slug: str, before: Manifest) -> Manifest:
    """Bring the copy up to date with the folder, from what it held before. Returns what it holds then.

    A checkpoint that the trainer deletes meanwhile is left out.
    """
    now = Manifest(_listed(folder), list(before.journal))
    for path, facts in list(now.files.items()):
        if before.files.get(path) != facts and path in now.files:
            try:
                with (folder / path).open("rb") as file:
                    _put(storage, f"{slug}/{path}", File(file))
            except FileNotFoundError:
                gone = path.rsplit("/", 1)[0] + "/" if "/" in path else path
                now.files = {name: known for name, known in now.files.items() if not name.startswith(gone)}
    _copy_journal(folder / JOURNAL_FILE, storage, slug, now)
    told = json.dumps({"files": now.files, "journal": now.journal})
    _put(storage, f"{slug}/{MANIFEST}", ContentFile(told.encode()))
    for path in before.files.keys() - now.files.keys():
        storage.delete(f"{slug}/{path}")
    return now


def _copy_journal(path: Path, storage: Storage, slug: str, now: Manifest) -> None:
    """One part more, up to the last complete line."""
    start = now.journal[-1] if now.journal else 0
    try:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return
    data = data[: data.rfind(b"\n") + 1]
    if data:
        _put(storage, f"{slug}/journal/{start:015d}", ContentFile(data))
        now.journal.append(start + len(data))


def _put(storage: Storage, name: str, content: File[bytes]) -> None:
    """Under that very name, in place of what may be there."""
    saved = storage.save(name, content)
    if saved != name:
        storage.delete(saved)
        raise OSError(f"the storage would not overwrite {name}")


def _listed(folder: Path) -> dict[str, tuple[int, int]]:
    """Everything that another machine could go on with: no half-written checkpoints, nothing of this machine."""
    found = {}
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        hidden = any(part.startswith(".") or part.endswith(".new") for part in path.parts)
        if hidden or str(path) in _OF_THIS_MACHINE:
            continue
        if path.parts[0] == CHECKPOINTS_FOLDER and not (folder.joinpath(*path.parts[:2]) / CHECKPOINT_STATE).exists():
            continue
        try:
            if file.is_file():
                facts = file.stat()
                found[path.as_posix()] = (facts.st_size, facts.st_mtime_ns)
        except FileNotFoundError:
            continue
    return found


def fetch(
    folder: Path, storage: Storage, slug: str, rest: Callable[[int], Iterable[bytes]], ended: Callable[[], bool]
) -> int | None:
    """Put the copy in place of whatever is in the folder. Returns the journal's bytes; None when told to end.

    `rest` gives the journal's lines behind so many: what the database knows and the copy does not.
    """
    manifest = read_manifest(storage, slug) or Manifest()
    fresh = folder.with_name(f".{folder.name}.fetched")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for path in manifest.files:
        if ended():
            return None
        target = fresh / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with storage.open(f"{slug}/{path}") as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, BLOCK)
    lines = 0
    with (fresh / JOURNAL_FILE).open("wb") as file:
        for block in journal(storage, slug, manifest):
            lines += block.count(b"\n")
            file.write(block)
        for line in rest(lines):
            file.write(line)
        size = file.tell()
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return size


def journal(storage: Storage, slug: str, manifest: Manifest) -> Iterator[bytes]:
    """The journal of a copy, block by block. Raises OSError where a part is not whole."""
    for name, size in manifest.parts():
        seen = 0
        with storage.open(f"{slug}/{name}") as source:
            while seen < size and (block := source.read(min(BLOCK, size - seen))):
                seen += len(block)
                yield block
        if seen != size:
            raise OSError(f"{name} of the copy of run {slug} has {seen} of {size} bytes")


def open_file(storage: Storage, slug: str, path: str) -> IO[bytes] | None:
    """One file of a copy; None where it holds no such file."""
    manifest = read_manifest(storage, slug)
    if manifest is None or path not in manifest.files:
        return None
    file: IO[bytes] = storage.open(f"{slug}/{path}")
    return file


def delete(storage: Storage, slug: str) -> None:
    """Delete the copy, its manifest first."""
    manifest = read_manifest(storage, slug)
    if manifest is None:
        return
    storage.delete(f"{slug}/{MANIFEST}")
    for path in [*manifest.files, *(name for name, _ in manifest.parts())]:
        storage.delete(f"{slug}/{path}")


def is_current(folder: Path, token: str) -> bool:
    """Whether the folder is the valid one of the run's copies, as its row in the database tells."""
    try:
        return (folder / TOKEN).read_text(encoding="ascii").strip() == token
    except FileNotFoundError:
        return not token
