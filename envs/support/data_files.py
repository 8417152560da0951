"""Data files of environments: regular files of a limited size."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

MIB, GIB = 2**20, 2**30


class DataFileError(ValueError):
    """A file that is not read. The message gives only the reason, without the file's name."""


def status(path: Path, max_bytes: int) -> os.stat_result:
    """Return the status of a data file.

    Raises DataFileError if it cannot be read, is not a regular file or is too large.
    """
    try:
        file_status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: an impossible name
        raise DataFileError(_reason(error)) from None
    _check(file_status, max_bytes)
    return file_status


def open_binary(path: Path, max_bytes: int) -> BinaryIO:
    """Open a data file without waiting for anything. Raises DataFileError as `status` does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise DataFileError(_reason(error)) from None
    try:
        _check(os.fstat(descriptor), max_bytes)
    except DataFileError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a data file. Raises DataFileError as `status` does, also if it grows too large meanwhile."""
    with open_binary(path, max_bytes) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise DataFileError(_too_large(max_bytes))
    return data


def _check(file_status: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(file_status.st_mode):
        raise DataFileError("is not a regular file")
    if file_status.st_size > max_bytes:
        raise DataFileError(_too_large(max_bytes))


def _too_large(max_bytes: int) -> str:
    size = f"{max_bytes // GIB} GiB" if max_bytes >= GIB else f"{max_bytes // MIB} MiB"
    return f"is larger than {size}, the maximum for such a file; split it or leave out a part"


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "its name is not valid"
