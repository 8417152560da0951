"""Reads members of zip archives, including Zstandard, which `zipfile` cannot read before Python 3.14."""

from __future__ import annotations

import importlib
import io
import struct
import sys
import zipfile
import zlib
from typing import Any

ZSTANDARD = 93
"""Number of the compression method in the zip format."""
_HEADER = struct.Struct("<26xHH")
"""Local header of a member, up to the lengths of its name and its extra field, which follow it."""


class ZstandardMissing(Exception):
    """No package that reads Zstandard is installed."""


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the content of a member.

    Raises:
        ZstandardMissing: it is compressed with Zstandard, and no installed package reads that.
        NotImplementedError: it is compressed in another way that Python does not know.
        zipfile.BadZipFile: it is damaged.
    """
    member = archive.getinfo(name)
    if member.compress_type != ZSTANDARD or sys.version_info >= (3, 14):
        return archive.read(member)
    stream = archive.fp
    if stream is None:
        raise ValueError("the archive is closed")
    stream.seek(member.header_offset)
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise zipfile.BadZipFile(f"the header of {name} is cut off")
    stream.seek(sum(_HEADER.unpack(header)), io.SEEK_CUR)
    content = _decompressed(stream.read(member.compress_size), name)
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"{name} does not have its checksum")
    return content


def _decompressed(data: bytes, name: str) -> bytes:
    """Decompress all frames of the data: Inspect begins a new frame every 200 MiB."""
    if zstandard := _package("zstandard"):
        try:
            with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
                content: bytes = reader.read()
        except zstandard.ZstdError as error:
            raise zipfile.BadZipFile(f"{name} is not Zstandard: {error}") from error
        return content
    if pyarrow := _package("pyarrow"):
        try:
            with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd") as reader:
                return bytes(reader.read())
        except OSError as error:
            raise zipfile.BadZipFile(f"{name} is not Zstandard: {error}") from error
    raise ZstandardMissing


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
