"""Reads type and size of PNG, JPEG and WebP files from their headers, without a library that decodes them."""

from __future__ import annotations

from typing import Literal, NamedTuple

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND\xaeB`\x82"
_JPEG, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
_FRAME_HEADERS = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG's frame, which contains its size; the three in between are tables."""
_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD9)}


class ImageHeader(NamedTuple):
    """Contents of an image's header."""

    media_type: str
    width: int
    height: int


class HeaderError(ValueError):
    """A file that is not a complete PNG, JPEG or WebP. The message is the end of a sentence about it."""


def read_header(data: bytes) -> ImageHeader:
    """Return type and size of an image.

    Raises:
        HeaderError: it has another type, or ends too early.
    """
    if data.startswith(_PNG):
        if data[12:16] != b"IHDR" or _PNG_END not in data[-64:]:
            raise HeaderError("is an incomplete PNG")
        return ImageHeader("image/png", _number(data[16:20], "big"), _number(data[20:24], "big"))
    if data.startswith(_JPEG):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        if len(data) < 30 or len(data) < _number(data[4:8], "little") + 8:
            raise HeaderError("is an incomplete WebP")
        return ImageHeader("image/webp", *_webp_size(data))
    raise HeaderError("is none of PNG, JPEG and WebP")


def _jpeg(data: bytes) -> ImageHeader:
    if _JPEG_END not in data[3:]:
        raise HeaderError("is an incomplete JPEG")
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAME_HEADERS:
            height, width = _number(data[at + 5 : at + 7], "big"), _number(data[at + 7 : at + 9], "big")
            return ImageHeader("image/jpeg", width, height)
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _WITHOUT_LENGTH:
            at += 2
        else:
            at += 2 + max(2, _number(data[at + 2 : at + 4], "big"))
    raise HeaderError("is a JPEG without a size")


def _webp_size(data: bytes) -> tuple[int, int]:
    kind, body = data[12:16], data[20:30]
    if kind == b"VP8X":
        return _number(body[4:7], "little") + 1, _number(body[7:10], "little") + 1
    if kind == b"VP8L":
        bits = _number(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return _number(body[6:8], "little") & 0x3FFF, _number(body[8:10], "little") & 0x3FFF
    raise HeaderError("is a WebP without a size")


def _number(data: bytes, order: Literal["big", "little"]) -> int:
    return int.from_bytes(data, order)
