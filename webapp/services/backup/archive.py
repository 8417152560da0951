"""Backup archives: a ZIP file with the database's dump, the folders of runs and, as its last member, a manifest.

ZIP has a CRC-32 of each member. The comment of a run's file is its modification time in ns.
"""

from __future__ import annotations

import errno
import json
import math
import os
import zipfile
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from trainer.journal.writer import sync_to_disk

FORMAT = 2
MANIFEST = "manifest.json"
BLOCK = 1 << 20
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, TypeError, NotImplementedError)


class BackupError(Exception):
    """A backup or its restoration was refused or failed. The message gives the reason, what was kept and what to do."""


@dataclass
class ArchiveManifest:
    """Contents of an archive.

    Attributes:
        created_at: ISO time of the snapshot.
        migrations: (app, name) of the database's migrations.
        database_bytes: size of the database on disk.
        runs: slug → iterations of the checkpoints in its folder.
        stored: slug → bytes of the copy in object storage, for runs that have one.
        key: fingerprint of the signing key.
        variables: names of the ECHOSCOPE_ variables that were set.
        left_out: folders whose members are invalid: the trainer deleted these checkpoints while they were copied.
        preview: data that only archives of the preview contain (preview_conversion.py).
    """

    created_at: str
    migrations: list[tuple[str, str]]
    database_bytes: int = 0
    runs: dict[str, list[int]] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    key: str = ""
    variables: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    preview: dict[str, Any] = field(default_factory=dict)


class ArchiveWriter:
    """A new archive, readable only for its owner. It gets its name when it is complete and on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")

    def __enter__(self) -> ArchiveWriter:
        try:
            descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise BackupError(f"{self.path} cannot be written: {error.strerror}. Choose another file.") from None
        self._file = os.fdopen(descriptor, "w+b")
        self._zip = zipfile.ZipFile(self._file, "w", compresslevel=1)
        return self

    def add(self, name: str, source: IO[bytes], *, limit: float = math.inf, compress: bool = True) -> int:
        """Append a member with at most `limit` bytes of the source. Returns their number."""
        size = 0
        self._zip.compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        with self._zip.open(name, "w", force_zip64=True) as file:
            while block := source.read(int(min(BLOCK, limit - size))):
                size += file.write(block)
        return size

    def add_file(self, name: str, file: IO[bytes], *, compress: bool = True) -> int:
        """Append a file with its present size, as a log grows while it is read. Returns its bytes. Raises OSError."""
        facts = os.fstat(file.fileno())
        size = self.add(name, file, limit=facts.st_size, compress=compress)
        self._zip.getinfo(name).comment = str(facts.st_mtime_ns).encode()
        return size

    def finish(self, manifest: ArchiveManifest) -> None:
        """Write the manifest and give the archive its name."""
        self._zip.writestr(MANIFEST, json.dumps({"format": FORMAT, **asdict(manifest)}))
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._partial.rename(self.path)
        sync_to_disk(self.path.parent)

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
    """An archive on disk. Call `verify` before changing anything because of it. The constructor raises BackupError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
            data = json.loads(self._zip.read(MANIFEST))
            self.format = int(data.pop("format"))
            if self.format > FORMAT:
                raise BackupError(
                    f"{path} was written by a newer version of Echoscope: nothing was changed. Install that version."
                )
            if self.format == 1:
                data["preview"] = {name: data.pop(name) for name in ("database", "rows", "members")}
            self.manifest = ArchiveManifest(**data)
            self.manifest.migrations = [(app, name) for app, name in data["migrations"]]
        except OSError as error:
            raise BackupError(f"{path} cannot be read: {error.strerror or error}. Nothing was changed.") from None
        except DAMAGED as error:
            raise BackupError(self._damage(f"its contents cannot be listed ({error})")) from None
        listed = self.manifest.preview.get("members")
        left_out = tuple(f"{folder}/" for folder in self.manifest.left_out)
        names = [name for name in self._zip.namelist() if listed is None or name in listed]
        self.names = [name for name in names if name != MANIFEST and not name.startswith(left_out)]

    def verify(self) -> None:
        """Read every member and compare it with its checksum. Raises BackupError."""
        try:
            broken: object = self._zip.testzip()
        except DAMAGED as error:
            broken = error
        if broken:
            raise BackupError(self._damage(f"{broken} has changed"))

    def open(self, name: str) -> IO[bytes]:
        """Return the contents of a member, to be read in sequence."""
        return self._zip.open(name)

    def extract_folder(self, folder: str, target: Path) -> None:
        """Extract `folder` into `target`, with the files' modification times. Raises OSError."""
        for name in self._names_in(folder):
            path = self._zip.extract(name, target)
            if mtime_ns := int(self._zip.getinfo(name).comment or 0):
                os.utime(path, ns=(mtime_ns, mtime_ns))

    def bytes_in(self, folder: str) -> int:
        """Return the number of bytes in `folder` after extraction."""
        return sum(self._zip.getinfo(name).file_size for name in self._names_in(folder))

    def _names_in(self, folder: str) -> list[str]:
        return [name for name in self.names if name.startswith(f"{folder}/")]

    def _damage(self, problem: str) -> str:
        return (
            f"{self.path} is no backup of Echoscope, or it is damaged or incomplete: {problem}. Nothing was changed. "
            "Copy the file again, or use another backup."
        )
