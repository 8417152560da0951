"""Images that a policy observed, stored in the journal's folder under a name from their content, so only once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import struct
import sys
import uuid
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from echoscope.recording.image_header import HeaderError, read_header

FOLDER = "images"
EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
MAX_BYTES = 3 * 1024 * 1024
MAX_SIDE = 8192
MAX_PIXELS = 16 * 1024 * 1024
MAX_IMAGES = 8
"""Maximum number of images in a turn. The limits equal a site's (trainer/journal/observation_images.py)."""
_HASH = re.compile(r"[0-9a-f]{64}")  # a journal of another program must not name other files
_PNG_MODES = ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")

ImageInput = Any
"""Bytes or path of a PNG, JPEG or WebP; a Pillow image; a numpy array, height × width × 3, uint8."""
Reference = dict[str, Any]


class ImageError(ValueError):
    """An image that cannot be recorded. The message names the image and the reason."""


def store_images(images: ImageInput | Sequence[ImageInput] | None, folder: Path) -> list[Reference]:
    """Write images into the folder of a run. Returns the references to them for a turn of the journal, in order.

    Args:
        images: one image, or a list or tuple of images; None is left out.
        folder: folder of the run.
    Raises:
        ImageError: an image has another type, is damaged or too large, or there are too many. None is written then.
        OSError: a file cannot be read or written.
    """
    given = [image for image in (images if isinstance(images, list | tuple) else [images]) if image is not None]
    if len(given) > MAX_IMAGES:
        raise ImageError(f"A turn may have at most {MAX_IMAGES} images, not {len(given):,}.")
    files = [_bytes(image) for image in given]
    references = [describe(data) for data in files]
    for data, reference in zip(files, references, strict=True):
        _write(data, image_path(folder, reference))
    return references


def describe(data: bytes) -> Reference:
    """Return a turn's reference to an image: hash, type and size. Raises ImageError."""
    if len(data) > MAX_BYTES:
        raise ImageError(
            f"The image has {len(data):,} bytes, and at most {MAX_BYTES:,} are recorded: pass it smaller, or as JPEG."
        )
    try:
        header = read_header(data)
    except HeaderError as error:
        raise ImageError(f"The image {error}: pass a complete PNG, JPEG or WebP.") from None
    _check_pixels(header.width, header.height)
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "media_type": header.media_type,
        "width": header.width,
        "height": header.height,
        "bytes": len(data),
    }


def image_path(folder: Path, reference: Reference) -> Path:
    """Return the file of an image in a run's folder. Raises ImageError if the reference names none."""
    if not _HASH.fullmatch(str(reference.get("sha256"))) or reference.get("media_type") not in EXTENSIONS:
        raise ImageError(f"{reference} is not a reference to an image.")
    return folder / FOLDER / f"{reference['sha256']}.{EXTENSIONS[reference['media_type']]}"


def data_uri_bytes(address: str) -> bytes:
    """Return the file in a `data:` address. Raises ImageError."""
    head, comma, text = address.partition(",")
    if not comma or not head.endswith(";base64"):
        raise ImageError("The image is not in base64.")
    if len(text) > MAX_BYTES * 3 // 2:
        raise ImageError(f"The image has more than the {MAX_BYTES:,} bytes that are recorded.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ImageError("The image is not in base64.") from None


def _bytes(image: ImageInput) -> bytes:
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image)
    if isinstance(image, str | os.PathLike):
        return _of_file(Path(image))
    pillow, numpy = sys.modules.get("PIL.Image"), sys.modules.get("numpy")  # loaded if the caller passes such objects
    if pillow is not None and isinstance(image, pillow.Image):
        return _of_pillow(image)
    if numpy is not None and isinstance(image, numpy.ndarray):
        return _of_array(image)
    raise ImageError(f"An image is bytes, a path, an image of Pillow or an array of numpy, not {type(image).__name__}.")


def _of_file(path: Path) -> bytes:
    if not path.is_file():  # reading a pipe would wait for its writer
        raise ImageError(f"There is no image {path}.")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _of_pillow(image: Any) -> bytes:
    _check_pixels(*image.size)
    buffer = BytesIO()
    (image if image.mode in _PNG_MODES else image.convert("RGB")).save(buffer, "PNG")
    return buffer.getvalue()


def _of_array(array: Any) -> bytes:
    """Encode an array as PNG: filter 0, one zlib stream."""
    if array.ndim != 3 or array.shape[2] != 3 or str(array.dtype) != "uint8":
        shape = f"{' × '.join(map(str, array.shape))} of {array.dtype}"
        raise ImageError(f"An array of an image is height × width × 3 of uint8, not {shape}.")
    height, width = array.shape[:2]
    _check_pixels(width, height)
    rows = array.reshape(height, width * 3).tobytes()
    stride = width * 3
    lines = b"".join(b"\0" + rows[at : at + stride] for at in range(0, len(rows), stride))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 6)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _check_pixels(width: int, height: int) -> None:
    if min(width, height) < 1 or max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise ImageError(
            f"The image has {width:,} × {height:,} pixels: at least one, at most {MAX_SIDE:,} a side and "
            f"{MAX_PIXELS:,} together are recorded. Pass it smaller."
        )


def _write(data: bytes, target: Path) -> None:
    """Write the file completely or not at all, as other processes of the run may write the same image."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        partial.write_bytes(data)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
