"""Backup archives: a ZIP file whose manifest lists every member with its size and SHA-256.

The manifest is the last member. Members that it does not list are ignored, so that a checkpoint which the trainer
deletes while it is copied can be left out afterwards.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

FORMAT = 1
MANIFEST = "manifest.json"
BLOCK = 1 << 20
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, TypeError, NotImplementedError)


class BackupError(Exception):
    """A backup or its restoration was refused or failed. The message gives the reason, what was kept and what to do."""


class UpgradeError(BackupError):
    """Everything was restored and is kept, but a migration failed."""


@dataclass(frozen=True)
class Member:
    """A file of the archive: bytes, hex digest, and modification time in ns (0 for tables)."""

    size: int
    sha256: str
    mtime_ns: int = 0


@dataclass
class ArchiveManifest:
    """Contents of an archive.

    Attributes:
        created_at: ISO time of the snapshot.
        database: name of the schema and its definition (table_schema.py).
        migrations: (app, name) of the migrations that the database had.
        rows: number of rows by table.
        runs: slug → iterations of the checkpoints of its folder.
        stored: slug → bytes of the copy in object storage, of runs that have one.
        key: fingerprint of the signing key.
        variables: names of the ECHOSCOPE_ variables that were set.
        members: files of the archive.
    """

    created_at: str
    database: dict[str, Any]
    migrations: list[tuple[str, str]]
    rows: dict[str, int]
    runs: dict[str, list[int]] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    key: str = ""
    variables: list[str] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)


class ArchiveWriter:
    """A new archive, readable by its owner only. It gets its name when it is complete and on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: dict[str, Member] = {}
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")

    def __enter__(self) -> ArchiveWriter:
        try:
            descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise BackupError(f"{self.path} cannot be written: {error.strerror}. Choose another file.") from None
        self._file = os.fdopen(descriptor, "w+b")
        self._zip = zipfile.ZipFile(self._file, "w", compresslevel=1)
        return self

    def add(self, name: str, blocks: Iterable[bytes], *, compress: bool = True, mtime_ns: int = 0) -> None:
        """Append a member."""
        digest, size = hashlib.sha256(), 0
        self._zip.compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        with self._zip.open(name, "w", force_zip64=True) as file:
            for block in blocks:
                digest.update(block)
                size += len(block)
                file.write(block)
        self.members[name] = Member(size, digest.hexdigest(), mtime_ns)

    def discard(self, folder: str) -> None:
        """Leave the members of a folder out of the manifest."""
        self.members = {name: member for name, member in self.members.items() if not name.startswith(f"{folder}/")}

    def finish(self, manifest: ArchiveManifest) -> None:
        """Write the manifest and give the archive its name. Raises BackupError if that name was taken meanwhile."""
        manifest.members = self.members
        self.add(MANIFEST, [json.dumps({"format": FORMAT, **asdict(manifest)}).encode()])
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        try:
            os.link(self._partial, self.path)
        except FileExistsError:
            raise BackupError(f"{self.path} exists: nothing was written. Choose another name.") from None
        except OSError:  # a file system without links
            self._partial.rename(self.path)
        sync_folder(self.path.parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in (self._zip, self._file):
            with suppress(OSError, ValueError):  # on a full disk, what is still buffered cannot be written
                part.close()
        self._partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise BackupError(
                f"The disk is full: {self.path} was not written. Free some space or choose another disk."
            ) from error


class ArchiveReader:
    """An archive on disk. `verify` before anything is changed because of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
            data = json.loads(self._zip.read(MANIFEST))
            if not isinstance(data["format"], int) or data["format"] > FORMAT:
                raise BackupError(
                    f"{path} was written by a newer version of Echoscope: nothing was changed. Install that version."
                )
            self.manifest = _parse_manifest(data)
        except OSError as error:
            raise BackupError(f"{path} cannot be read: {error.strerror or error}. Nothing was changed.") from None
        except DAMAGED as error:
            raise BackupError(self._damage(f"its contents cannot be listed ({error})")) from None

    def verify(self) -> None:
        """Read every member and compare it with its checksum. Raises BackupError."""
        for name, member in self.manifest.members.items():
            if name != str(PurePosixPath(name)) or name.startswith("/") or ".." in name.split("/"):
                raise BackupError(self._damage(f"{name!r} is not a valid name"))
            for _ in self.blocks(name, member):
                pass

    def blocks(self, name: str, member: Member | None = None) -> Iterator[bytes]:
        """Contents of a member. Raises BackupError at its end if it differs from the manifest."""
        member = member or self.manifest.members[name]
        digest, size = hashlib.sha256(), 0
        try:
            with self._zip.open(name) as file:
                while block := file.read(BLOCK):
                    digest.update(block)
                    size += len(block)
                    yield block
        except DAMAGED as error:
            raise BackupError(self._damage(f"{name}: {error}")) from None
        if (size, digest.hexdigest()) != (member.size, member.sha256):
            raise BackupError(self._damage(f"{name} has changed"))

    def close(self) -> None:
        self._zip.close()

    def _damage(self, problem: str) -> str:
        return (
            f"{self.path} is no backup of Echoscope, or it is damaged or incomplete: {problem}. Nothing was changed. "
            "Copy the file again, or use another backup."
        )


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parse_manifest(data: dict[str, Any]) -> ArchiveManifest:
    values = {name: value for name, value in data.items() if name != "format"}
    values["members"] = {name: Member(**member) for name, member in data["members"].items()}
    values["migrations"] = [(app, name) for app, name in data["migrations"]]
    return ArchiveManifest(**values)
