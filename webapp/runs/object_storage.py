"""Copies of a run's folder in object storage (ECHOSCOPE_STORAGE): incremental upload, fetch, deletion.

A copy is a manifest, the files that it lists, and the journal in parts, because objects cannot be appended to. The
manifest is written last: everything it lists exists.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.core.files.storage.handler import InvalidStorageError

from trainer.journal.observation_images import IMAGES_FOLDER
from trainer.journal.protocol import (
    CHECKPOINT_STATE,
    CHECKPOINTS_FOLDER,
    JOURNAL_FILE,
    WATCH_FILE,
)
from webapp.runs.untrusted_folder import UntrustedFolder

MANIFEST = "manifest.json"
TOKEN = "copy.txt"
MAX_TOKEN_BYTES = 100
_LOCAL_FILES = {JOURNAL_FILE, TOKEN, WATCH_FILE}
INITIAL_FOLDER = ".initial"
"""Folder in a run's folder with a copy of another run's checkpoint, from which the run starts."""
BLOCK = 1 << 20
COMPARED = 4096
PART = 64 << 20
"""Maximum size of one part of a journal. The ingest reads no longer line."""


@dataclass
class Manifest:
    """Contents of a copy.

    Attributes:
        files: (bytes, mtime in ns) of each file by path.
        journal: end offsets of the journal's parts.
        journal_end: digest of the last bytes of the parts.
    """

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    journal: list[int] = field(default_factory=list)
    journal_end: str = ""

    @property
    def checkpoints(self) -> list[int]:
        """Iterations of the complete checkpoints, ascending."""
        names = (path.split("/") for path in self.files)
        return sorted(int(name[1]) for name in names if name[0] == CHECKPOINTS_FOLDER and name[-1] == CHECKPOINT_STATE)

    def parts(self) -> Iterator[tuple[str, int]]:
        """Yield (name, bytes) of the journal's parts in order."""
        for start, end in zip([0, *self.journal], self.journal, strict=False):
            yield f"journal/{start:015d}", end - start


def configured_storage() -> Storage | None:
    """Return the storage of copies; None if none is configured."""
    try:
        return storages["runs"]
    except InvalidStorageError:
        return None


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions of a storage that is unavailable, refuses access, or contains an invalid copy."""
    exceptions: list[type[Exception]] = [OSError, ValueError, LookupError, TypeError]
    if "botocore" in sys.modules:
        from boto3.exceptions import Boto3Error  # type: ignore[import-untyped]
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

        exceptions += [BotoCoreError, ClientError, Boto3Error]
    return tuple(exceptions)


def read_manifest(storage: Storage, slug: str) -> Manifest | None:
    """Return the manifest of the run's copy; None without a copy. Raises OSError and the storage's exceptions."""
    name = f"{slug}/{MANIFEST}"
    if not storage.exists(name):
        return None
    with storage.open(name) as file:
        data: dict[str, Any] = json.loads(file.read())
    files = {path: (size, mtime) for path, (size, mtime) in data["files"].items()}
    return Manifest(files, data["journal"], data.get("journal_end", ""))


def copy(folder: Path, storage: Storage, slug: str, before: Manifest) -> Manifest:
    """Upload changes since the manifest `before`. Returns the new manifest.

    A checkpoint that the trainer deletes during the upload is left out.
    """
    inside = UntrustedFolder(folder)
    now = Manifest(listed(inside.list_files().files), list(before.journal), before.journal_end)
    for path, facts in list(now.files.items()):
        if before.files.get(path) != facts and path in now.files:
            try:
                with inside.open(path) as file:
                    _put(storage, f"{slug}/{path}", File(file))
            except FileNotFoundError:
                gone = path.rsplit("/", 1)[0] + "/" if "/" in path else path
                now.files = {name: entry for name, entry in now.files.items() if not name.startswith(gone)}
    _copy_journal(inside, storage, slug, now)
    _put(storage, f"{slug}/{MANIFEST}", ContentFile(json.dumps(asdict(now)).encode()))
    for path in before.files.keys() - now.files.keys():
        storage.delete(f"{slug}/{path}")
    return now


def _copy_journal(inside: UntrustedFolder, storage: Storage, slug: str, now: Manifest) -> None:
    """Upload further parts up to the last complete line.

    Uploads all parts if the journal differs from the copy: it lost its end in a power cut, and a later attempt wrote
    other lines.
    """
    start = now.journal[-1] if now.journal else 0
    try:
        with inside.open(JOURNAL_FILE) as file:
            if _digest_before(file, start) != now.journal_end:
                start = 0
                now.journal.clear()
            end = os.fstat(file.fileno()).st_size
            while start < end:
                file.seek(start)
                data = file.read(PART)
                data = data[: data.rfind(b"\n") + 1]
                if not data:
                    break
                _put(storage, f"{slug}/journal/{start:015d}", ContentFile(data))
                start += len(data)
                now.journal.append(start)
            now.journal_end = _digest_before(file, start)
    except FileNotFoundError:
        return


def _digest_before(file: IO[bytes], offset: int) -> str:
    """Return the digest of the bytes before that offset, enough to include a line's time; empty at the beginning."""
    first = max(0, offset - COMPARED)
    file.seek(first)
    return hashlib.sha256(file.read(offset - first)).hexdigest() if offset else ""


def _put(storage: Storage, name: str, content: File[bytes]) -> None:
    """Save under exactly that name, replacing an existing object."""
    saved = storage.save(name, content)
    if saved != name:
        storage.delete(saved)
        raise OSError(f"the storage would not overwrite {name}")


def listed(files: Mapping[str, os.stat_result]) -> dict[str, tuple[int, int]]:
    """Return (bytes, mtime) by path of the files needed to continue elsewhere: complete checkpoints, no local files."""
    entries = {}
    for path, facts in files.items():
        parts = path.split("/")
        visible = parts[1:] if parts[0] == INITIAL_FOLDER else parts
        hidden = any(part.startswith(".") or part.endswith(".new") for part in visible)
        if hidden or path in _LOCAL_FILES:
            continue
        if parts[0] == CHECKPOINTS_FOLDER and f"{'/'.join(parts[:2])}/{CHECKPOINT_STATE}" not in files:
            continue
        entries[path] = (facts.st_size, facts.st_mtime_ns)
    return entries


def fetch(
    folder: Path,
    storage: Storage,
    slug: str,
    journal_after: Callable[[int], Iterable[bytes]],
    is_cancelled: Callable[[], bool],
) -> int | None:
    """Replace the folder by the copy. Returns the bytes of the journal; None if cancelled.

    `journal_after` returns the journal's lines after the first n, which only the database has.
    """
    manifest = read_manifest(storage, slug) or Manifest()
    fresh = UntrustedFolder(folder.with_name(f".{folder.name}.fetched"))
    fresh.delete()
    fresh.path.mkdir(parents=True)
    for path in manifest.files:
        if is_cancelled():
            return None
        with storage.open(f"{slug}/{path}") as source, fresh.create(path) as file:
            shutil.copyfileobj(source, file, BLOCK)
    lines = 0
    with fresh.create(JOURNAL_FILE) as file:
        for block in journal(storage, slug, manifest):
            lines += block.count(b"\n")
            file.write(block)
        for line in journal_after(lines):
            file.write(line)
        size = file.tell()
    UntrustedFolder(folder).delete()
    fresh.path.rename(folder)
    return size


def journal(storage: Storage, slug: str, manifest: Manifest) -> Iterator[bytes]:
    """Yield the journal of a copy in blocks. Raises OSError if a part is incomplete."""
    for name, size in manifest.parts():
        seen = 0
        with storage.open(f"{slug}/{name}") as source:
            while seen < size and (block := source.read(min(BLOCK, size - seen))):
                seen += len(block)
                yield block
        if seen != size:
            raise OSError(f"{name} of the copy of run {slug} has {seen} of {size} bytes")


def open_file(storage: Storage, slug: str, path: str) -> IO[bytes] | None:
    """Open one file of a copy; None if there is no such file."""
    manifest = read_manifest(storage, slug)
    if manifest is None or path not in manifest.files:
        return None
    file: IO[bytes] = storage.open(f"{slug}/{path}")
    return file


def save_file(storage: Storage, slug: str, path: str, data: bytes) -> None:
    """Save one file of a run that has no copy: an image of a run that was sent here."""
    _put(storage, f"{slug}/{path}", ContentFile(data))


def delete(storage: Storage, slug: str) -> None:
    """Delete the copy, its manifest first, and the images that were sent with the run."""
    manifest = read_manifest(storage, slug)
    if manifest is not None:
        storage.delete(f"{slug}/{MANIFEST}")
        for path in [*manifest.files, *(name for name, _ in manifest.parts())]:
            storage.delete(f"{slug}/{path}")
    for path in image_files(storage, slug):
        storage.delete(f"{slug}/{path}")


def image_files(storage: Storage, slug: str) -> list[str]:
    """Return the paths of a run's images."""
    try:
        _, names = storage.listdir(f"{slug}/{IMAGES_FOLDER}")
    except FileNotFoundError:
        return []
    return [f"{IMAGES_FOLDER}/{name}" for name in names]


def is_current(folder: Path, token: str) -> bool:
    """Return True if the folder is the current copy of the run, according to the token in its database row."""
    try:
        return UntrustedFolder(folder).read(TOKEN, MAX_TOKEN_BYTES).strip() == token.encode()
    except FileNotFoundError:
        return not token


def size(storage: Storage, slug: str) -> int | None:
    """Return the bytes that a copy's manifest lists; None without a copy."""
    manifest = read_manifest(storage, slug)
    if manifest is None:
        return None
    return sum(size for size, _ in manifest.files.values()) + sum(size for _, size in manifest.parts())
