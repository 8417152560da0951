"""Images of observations: checked when they arrive, kept in the run's folder or in object storage, read for pages."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from PIL import Image, UnidentifiedImageError

from trainer.journal.observation_images import (
    IMAGES_FOLDER,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_PIXELS,
    MAX_IMAGE_SIDE,
    MediaType,
    ObservationImage,
    image_path,
)
from webapp.runs import object_storage
from webapp.runs.models import Run
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.trajectories.models import Trajectory, Turn
from webapp.trajectories.positions import Position

FORMATS: dict[MediaType, str] = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}
_SECOND_PICTURES = "MPO"
"""Pillow's format of a JPEG with further pictures, as phones write it; browsers show the first one."""
DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
)
"""Exceptions of Pillow for files that are not images, or end too early."""
SHOWN_BOX = (480, 260)
"""Maximum width and height in CSS pixels of an image next to a state; see static/js/board/observation_images.js."""
MIN_SHOWN_SIDE = 160
"""Images with shorter sides, such as frames of games, are shown at an integer multiple of their size."""

Images = Mapping[str, Image.Image]
"""Decoded images by their SHA-256, for drawings."""
NO_IMAGES: Images = {}
DRAWN_BOARDS = {"grid", "arms", "page"}
"""Kinds of boards that are drawn even if there is an image: they are sharper at that size, and can show marks."""
MAX_DRAWN_SIDE = 550
"""Side of a preview's board in pixels. Decoded images are not kept larger: an animation may contain a hundred."""

MAX_COMPRESSED_TEXT = 8 * 1024
"""Maximum bytes of all compressed texts of a PNG."""
MAX_SCANS = 64
"""Maximum scans of a JPEG. Programs write about ten, and decoding each takes as long as decoding the whole image."""
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
JPEG_SIGNATURE, JPEG_SCAN = b"\xff\xd8", b"\xff\xda"


class ImageRefused(ValueError):
    """An image that the site does not accept. The message tells its sender the reason."""


def check_image(data: bytes, sha256: str, media_type: MediaType) -> ObservationImage:
    """Decode an image that was sent, and return its facts. Raises ImageRefused."""
    kind = FORMATS[media_type]
    if len(data) > MAX_IMAGE_BYTES:
        raise ImageRefused(
            f"The image has {len(data):,} bytes, and at most {MAX_IMAGE_BYTES:,} are kept. Send it smaller, or as JPEG."
        )
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise ImageRefused(f"The SHA-256 of the image is {actual}, not the one in its address. Send it again.")
    _check_decoding_time(data)
    try:
        with Image.open(BytesIO(data), formats=[kind]) as image:
            width, height = image.size
            _check_size(width, height)
            if image.format != _SECOND_PICTURES and getattr(image, "is_animated", False):
                raise ImageRefused(f"The {kind} image is an animation, and an observation is one image. Send a frame.")
            image.load()
    except ImageRefused:
        raise
    except UnidentifiedImageError:
        raise ImageRefused(f"The file is not a {kind} image. Send PNG, JPEG or WebP, with its own type.") from None
    except Image.DecompressionBombError:
        raise ImageRefused(f"The image has far more than {MAX_IMAGE_PIXELS:,} pixels: send it smaller.") from None
    except DAMAGED as error:
        raise ImageRefused(f"The {kind} image is damaged or incomplete ({error}). Send it again.") from None
    return ObservationImage(sha256=sha256, media_type=media_type, width=width, height=height, bytes=len(data))


def _check_decoding_time(data: bytes) -> None:
    """Raise ImageRefused for a file that would take far longer to decode than its pixels do."""
    packed = profiles = 0
    for kind, content in _png_chunks(data):
        if kind == b"zTXt" or (kind == b"iTXt" and content.partition(b"\0")[2][:1] != b"\0"):
            packed += len(content)  # which may expand a thousand times
        profiles += kind == b"iCCP"  # also compressed; Pillow limits the size of one, but not their number
    if packed > MAX_COMPRESSED_TEXT:
        raise ImageRefused(
            f"The PNG image holds {packed:,} bytes of compressed text, and at most {MAX_COMPRESSED_TEXT:,} are kept. "
            "Send it without its metadata."
        )
    if profiles > 1:
        raise ImageRefused(
            f"The PNG image holds {profiles:,} colour profiles, and a PNG has one. Send it without them."
        )
    scans = data.count(JPEG_SCAN) if data.startswith(JPEG_SIGNATURE) else 0
    if scans > MAX_SCANS:
        raise ImageRefused(
            f"The JPEG image has {scans:,} scans, and at most {MAX_SCANS} are decoded. Send it as a baseline JPEG."
        )


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and content of each chunk of a PNG; nothing for other files."""
    at = len(PNG_SIGNATURE) if data.startswith(PNG_SIGNATURE) else len(data)
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length  # its length, kind and checksum


def _check_size(width: int, height: int) -> None:
    """Raise ImageRefused for large images before they are decoded: a few kilobytes may contain gigabytes of pixels."""
    if max(width, height) > MAX_IMAGE_SIDE or width * height > MAX_IMAGE_PIXELS:
        raise ImageRefused(
            f"The image has {width:,} × {height:,} pixels. At most {MAX_IMAGE_SIDE:,} a side and "
            f"{MAX_IMAGE_PIXELS:,} together are kept: send it smaller."
        )


def is_stored(run: Run, image: ObservationImage) -> bool:
    """Return True if the site has the image. Raises the storage's exceptions."""
    storage, path = object_storage.configured_storage(), image_path(image.sha256, image.media_type)
    if storage is not None:
        return bool(storage.exists(f"{run.slug}/{path}"))
    return UntrustedFolder(run.folder).has(path)


def store_image(run: Run, image: ObservationImage, data: bytes) -> None:
    """Store a checked image with its run; the same content again changes nothing. Raises the storage's exceptions."""
    storage, path = object_storage.configured_storage(), image_path(image.sha256, image.media_type)
    if storage is not None:
        object_storage.save_file(storage, run.slug, path, data)
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    UntrustedFolder(run.folder).replace(path, data)


def find_image(trajectory: Trajectory, sha256: str) -> ObservationImage | None:
    """Return the image with that hash if a turn of the trajectory refers to it: a share link shows no other."""
    turns = trajectory.turns.filter(event__images__contains=[{"sha256": sha256}])
    for images in turns.values_list("event__images", flat=True)[:1]:
        return ObservationImage.model_validate(next(image for image in images if image["sha256"] == sha256))
    return None


def read_image(run: Run, image: ObservationImage) -> bytes | None:
    """Return the file; None if it was never sent, or the storage is unavailable."""
    storage, path = object_storage.configured_storage(), image_path(image.sha256, image.media_type)
    if storage is not None:
        try:
            with storage.open(f"{run.slug}/{path}") as file:
                data: bytes = file.read()
                return data
        except object_storage.failures():
            pass  # kept in the folder before a storage was configured
    try:
        return UntrustedFolder(run.folder).read(path, MAX_IMAGE_BYTES)
    except FileNotFoundError:
        return None


def referenced_images(run: Run) -> set[str]:
    """Return the hashes of the images to which turns of the run refer."""
    turns = Turn.objects.filter(trajectory__run=run, event__images__isnull=False)
    lists = turns.values_list("event__images", flat=True).iterator(chunk_size=1000)
    return {image["sha256"] for images in lists for image in images or ()}


def delete_images(run: Run, keep: Container[str]) -> Iterator[tuple[str, int]]:
    """Delete the images of a run except those in `keep`. Yields hash and bytes of each file once it is deleted.

    Raises the storage's exceptions, after which a further call deletes the rest.
    """
    storage = object_storage.configured_storage()
    if storage is not None:
        for path in object_storage.image_files(storage, run.slug):
            sha256 = Path(path).stem
            if sha256 not in keep:
                size = storage.size(f"{run.slug}/{path}")
                storage.delete(f"{run.slug}/{path}")
                yield sha256, size
    folder = UntrustedFolder(run.folder)
    for file in images_in(folder):
        if file.sha256 not in keep:
            folder.remove(file.path)
            yield file.sha256, file.bytes


@dataclass(frozen=True)
class ImageFile:
    """A file in the folder of a run, with the hash and the type from its name."""

    path: str
    sha256: str
    media_type: MediaType
    bytes: int


def images_in(folder: UntrustedFolder) -> list[ImageFile]:
    """Return the image files in the folder of a run."""
    kinds = {f".{image_path('', kind).rpartition('.')[2]}": kind for kind in FORMATS}
    files = []
    for name, facts in folder.list_files(IMAGES_FOLDER).files.items():
        path = PurePosixPath(name)
        if len(path.parts) == 2 and path.suffix in kinds and not path.stem.startswith("."):
            files.append(ImageFile(name, path.stem, kinds[path.suffix], facts.st_size))
    return files


def shown_size(width: int, height: int) -> tuple[int, int]:
    """Return width and height at which a page shows an image of that size, before it is enlarged."""
    longest = max(width, height)
    if longest < MIN_SHOWN_SIDE:
        factor: float = max(1, min(SHOWN_BOX[0] // width, SHOWN_BOX[1] // height))
    else:
        factor = min(1.0, SHOWN_BOX[0] / width, SHOWN_BOX[1] / height)
    return max(1, round(width * factor)), max(1, round(height * factor))


def observed(position: Position) -> ObservationImage | None:
    """Return the first image of the position's turn, for drawings; None if its board is drawn instead."""
    images = (position.turn_data or {}).get("images")
    if not images or position.board.get("kind") in DRAWN_BOARDS:
        return None
    return ObservationImage.model_validate(images[0])


def decoded_images(run: Run, shown: Iterable[Position]) -> Images:
    """Return the images to draw for the positions, without those that were never sent or are damaged."""
    facts = {image.sha256: image for position in shown if (image := observed(position)) is not None}
    decoded = {sha256: _decode(read_image(run, image), image) for sha256, image in facts.items()}
    return {sha256: image for sha256, image in decoded.items() if image is not None}


def _decode(data: bytes | None, facts: ObservationImage) -> Image.Image | None:
    if data is None:
        return None
    try:
        _check_decoding_time(data)  # images of a trained run are in its folder, where its trainer may have put any file
        with Image.open(BytesIO(data), formats=[FORMATS[facts.media_type]]) as image:
            _check_size(*image.size)
            image.thumbnail((MAX_DRAWN_SIDE, MAX_DRAWN_SIDE))
            return image.convert("RGBA")
    except (ImageRefused, *DAMAGED, Image.DecompressionBombError):
        return None
