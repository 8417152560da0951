"""Files of a folder in which a run's trainer may have put anything: links, pipes, files of any size and name.

The site's processes have more rights than a sandboxed trainer. They therefore open run folders only with this module:
it never follows a link out of the folder, waits for a pipe, or takes a file that has another name elsewhere.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path

MAX_DEPTH = 64
"""Levels of folders that are listed. Run folders have six levels; trackers may add some."""
SPARSE_BYTES, SPARSE_RATIO = 64 << 20, 64
"""A file is refused if it is longer than SPARSE_BYTES plus SPARSE_RATIO times its size on disk: a hole of a terabyte
costs its author nothing. Compressing file systems stay below that ratio."""
_ELSEWHERE = {errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENODEV, errno.ENAMETOOLONG}
_CLOSED = {errno.EACCES, errno.EPERM, errno.EAGAIN}
_IN_THE_WAY = {errno.EEXIST, errno.ENOTEMPTY}
_REFUSALS = _ELSEWHERE | _CLOSED | _IN_THE_WAY
"""System errors for names that lead elsewhere, are no plain files, or that the trainer closed or leased."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class FileRefused(FileNotFoundError):
    """A name in the folder that is not a plain file, or has another link. Readers treat it as missing."""


@dataclass(frozen=True)
class FolderListing:
    """The plain files of a folder by path, and the names in it that are neither plain files nor folders."""

    files: dict[str, os.stat_result]
    refused: list[str]


class UntrustedFolder:
    """A folder whose contents a trainer may change at any moment, also between two system calls.

    Names are relative paths with "/". The folder itself and its parents are trusted: the site created them where
    trainers cannot write. Below it, each part of a name is opened in the folder before it, and no link is followed.
    That is what openat2 does with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, on every system.

    All methods raise FileNotFoundError for missing files, and its subclass FileRefused for names that are not plain
    files or lead out of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def path_to(self, name: str) -> Path:
        """Return the path of a file, only for commands and messages."""
        return self.path / name

    def open(self, name: str) -> BufferedReader:
        """Open a file to read it."""
        with self._parent(name) as (parent, last):
            return os.fdopen(self._opened(parent, last, name, os.O_RDONLY), "rb")

    def has(self, name: str) -> bool:
        """Return True if `open` would succeed."""
        try:
            self.open(name).close()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def read(self, name: str, limit: int) -> bytes:
        """Return the contents of a file. Raises FileRefused if it has more than `limit` bytes."""
        with self.open(name) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise self._refusal(name, f"it has more than {limit:,} bytes")
        return data

    def blocks(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the contents in blocks of `size` bytes, up to the present end: the file may grow while it is sent."""
        with self.open(name) as file:
            left = os.fstat(file.fileno()).st_size
            while left and (block := file.read(min(size, left))):
                left -= len(block)
                yield block

    def append(self, name: str) -> FileIO:
        """Open a file without a buffer, to read it and to append to it. It is created if it does not exist."""
        with self._parent(name) as (parent, last):
            handle = self._opened(parent, last, name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            return os.fdopen(handle, "a+b", buffering=0)

    def create(self, name: str, mode: int = 0o666) -> BufferedWriter:
        """Open a new file to write it, in folders that are created as needed. Raises FileRefused if it exists."""
        with self._parent(name, make=True) as (parent, last), self._refusing(name):
            handle = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=parent)
        os.set_blocking(handle, True)
        return os.fdopen(handle, "wb")

    def replace(self, name: str, data: bytes) -> None:
        """Write a temporary file, then rename it, in place of any file or link."""
        folder, _, last = name.rpartition("/")
        new = f"{folder}/" * bool(folder) + f".{last}.{secrets.token_hex(8)}.new"
        try:
            with self.create(new) as file:
                file.write(data)
            self.rename(new, name)
        except BaseException:
            self.remove(new)
            raise

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder within this folder. Raises FileRefused if a folder is in the way."""
        with self._parent(old) as (source, last), self._parent(new, make=True) as (target, name), self._refusing(new):
            os.rename(last, name, src_dir_fd=source, dst_dir_fd=target)

    def make_folder(self, name: str) -> None:
        """Create a folder and its parents. Raises FileRefused if there is something else in its place."""
        with self._parent(f"{name}/.", make=True):
            pass

    def sync(self, name: str = "") -> None:
        """Wait until the entries of a folder are on the disk, so that a rename survives a power cut."""
        with self._parent(f"{name}/." if name else ".") as (folder, _):
            os.fsync(folder)

    def folders(self, name: str = "") -> list[str]:
        """Return the sorted names of the subfolders; empty if the folder does not exist."""
        try:
            with self._parent(f"{name}/." if name else ".") as (folder, _), os.scandir(folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def list_files(self, below: str = "") -> FolderListing:
        """Return all files below a folder, sorted by path. Names that archives cannot contain are refused."""
        files: dict[str, os.stat_result] = {}
        refused: list[str] = []
        for path, facts in self.walk(below, refused):
            if stat.S_ISDIR(facts.st_mode):
                continue
            if _is_text(path) and not _objection(facts):
                files[path] = facts
            else:
                refused.append(path)
        return FolderListing(dict(sorted(files.items())), sorted(refused))

    def walk(self, below: str = "", refused: list[str] | None = None) -> Iterator[tuple[str, os.stat_result]]:
        """Yield path and stat of everything below a folder, without following links.

        Inaccessible and too deep folders are appended to `refused`.
        """
        waiting = [below]
        while waiting:
            folder = waiting.pop()
            prefix = f"{folder}/" if folder else ""
            try:
                if prefix.count("/") > MAX_DEPTH:
                    raise self._refusal(folder, "it is too deep")
                with self._parent(f"{prefix}.") as (handle, _), self._refusing(folder), os.scandir(handle) as entries:
                    entries_below = [(f"{prefix}{entry.name}", facts) for entry in entries if (facts := _facts(entry))]
            except FileNotFoundError as error:
                if refused is not None and isinstance(error, FileRefused):
                    refused.append(folder)
                continue
            yield from entries_below
            waiting += [path for path, facts in entries_below if stat.S_ISDIR(facts.st_mode)]

    def remove(self, name: str) -> None:
        """Remove a file, link or folder with its contents, as far as the system permits; do nothing if it is gone."""
        with suppress(OSError), self._parent(".") as (root, _), self._parent(name) as (parent, last):
            _remove(root, parent, last)

    def delete(self) -> None:
        """Remove the folder itself with its contents, as far as the system permits."""
        with suppress(OSError):  # gone, or no folder, or a process of the trainer still writes
            for name in os.listdir(self.path):
                self.remove(name)
            self.path.rmdir()

    @contextmanager
    def _parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the open folder that contains the name, and the last part of the name."""
        *folders, last = name.split("/")
        if ".." in folders or last in ("", "..") or name.startswith("/") or "\0" in name:
            raise self._refusal(name, "the name leads out of the folder")
        handle = os.open(self.path, _FOLDER)
        try:
            for part in folders:
                with self._refusing(name):
                    below = _open_folder(handle, part, make=make)
                os.close(handle)
                handle = below
            yield handle, last
        finally:
            os.close(handle)

    def _opened(self, parent: int, last: str, name: str, flags: int) -> int:
        with self._refusing(name):
            try:
                self._check(os.stat(last, dir_fd=parent, follow_symlinks=False), name)  # opening affects some devices
            except FileNotFoundError as error:
                if isinstance(error, FileRefused) or not flags & os.O_CREAT:
                    raise
            handle = os.open(last, flags | _FILE, 0o666, dir_fd=parent)
        try:
            self._check(os.fstat(handle), name)
            os.set_blocking(handle, True)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _check(self, facts: os.stat_result, name: str) -> None:
        if objection := _objection(facts):
            raise self._refusal(name, objection)

    @contextmanager
    def _refusing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _REFUSALS:
                raise self._refusal(name, error.strerror or "") from error
            error.filename, error.filename2 = str(self.path_to(name)), None  # the whole path, for messages
            raise

    def _refusal(self, name: str, reason: str) -> FileRefused:
        return FileRefused(errno.ENOENT, f"not a plain file of this run ({reason})", str(self.path_to(name)))


def _objection(facts: os.stat_result) -> str:
    """Return the reason why a file is refused; empty if it is accepted."""
    if not stat.S_ISREG(facts.st_mode):
        return "it is no regular file"
    if facts.st_nlink > 1:
        return "it has another name, perhaps outside of the folder"
    if facts.st_size > SPARSE_BYTES + SPARSE_RATIO * 512 * facts.st_blocks:
        return "it consists of holes"
    return ""


def _is_text(path: str) -> bool:
    """Return True if a path is the same in an archive, a database and on another system."""
    return path.isprintable() and "\\" not in path


def _facts(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:  # removed meanwhile
        return None


def _open_folder(parent: int, name: str, *, make: bool = False) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)


def _remove(root: int, parent: int, name: str) -> None:
    """Remove an entry. Folders move to the root before they are emptied, since a tree may be deeper than a stack."""
    waiting: list[str] = []
    _take_apart(root, parent, name, waiting)
    while waiting:
        folder = waiting.pop()
        handle = _open_folder(root, folder)
        try:
            for inner in os.listdir(handle):
                _take_apart(root, handle, inner, waiting)
        finally:
            os.close(handle)
        with suppress(OSError):  # something in it could not be removed
            os.rmdir(folder, dir_fd=root)


def _take_apart(root: int, parent: int, name: str, waiting: list[str]) -> None:
    """Remove a file, or move a folder to the root and append its new name to `waiting`."""
    with suppress(OSError):  # gone meanwhile, or closed
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            return
        moved = f".{secrets.token_hex(8)}.removed"
        os.rename(name, moved, src_dir_fd=parent, dst_dir_fd=root)
        waiting.append(moved)
