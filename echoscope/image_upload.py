"""Upload of the images that turns of a journal refer to, each before the first of these turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from echoscope.errors import Conflict, EchoscopeError, Refused
from echoscope.recording.observation_images import ImageError, image_path

_REFUSED = (409, 413, 422)
"""Statuses that a second attempt would get as well."""
Report = Callable[[str], None]


def ignore(problem: str) -> None:
    """Ignore the report of a problem."""


class ImageApi(Protocol):
    """The API operation that sends images, as in echoscope.client.Client."""

    def put_image(self, run: str, sha256: str, media_type: str, data: bytes) -> object: ...


class ImageUpload:
    """Sends images of one run from the folder of its journal, each once.

    Args:
        skip: receives the problem of a missing or refused image, and the other images are sent; None: the problem ends
            the upload.
    """

    def __init__(self, client: ImageApi, folder: Path, run: str, skip: Report | None) -> None:
        self._client, self._folder, self._run, self._skip = client, folder, run, skip
        self._sent: set[str] = set()
        self._full = False

    def send_images(self, lines: bytes) -> None:
        """Send the images of these lines. Raises EchoscopeError."""
        for line in lines.splitlines():
            for reference in _references(line):
                if self._full or reference["sha256"] in self._sent:
                    continue
                try:
                    self._send(reference)
                except EchoscopeError as error:
                    if self._skip is None or (isinstance(error, Refused) and error.status not in _REFUSED):
                        raise
                    self._full = isinstance(error, Conflict)  # a quota is reached: the next is refused, too
                    self._skip(str(error))
                self._sent.add(reference["sha256"])

    def _send(self, reference: dict[str, Any]) -> None:
        file = image_path(self._folder, reference)
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            raise EchoscopeError(
                f"The image {file} is missing. Put it back, or send the run without it (--skip-bad-images)."
            ) from None
        try:
            self._client.put_image(self._run, reference["sha256"], reference["media_type"], data)
        except Refused as refusal:
            if refusal.status not in _REFUSED:
                raise
            advice = " Everything before it was sent; the rest can be sent without it (--skip-bad-images)."
            raise type(refusal)(
                refusal.status,
                refusal.code,
                f"The site does not take the image {file}: {refusal.message}{'' if self._skip else advice}",
                refusal.fields,
                refusal.details,
            ) from refusal


def before_images(lines: bytes) -> bytes:
    """Return the lines before the first line with images: the run has to exist before its images can be sent."""
    at = 0
    for line in lines.splitlines(keepends=True):
        if next(_references(line), None):
            return lines[:at]
        at += len(line)
    return lines


def _references(line: bytes) -> Iterator[dict[str, Any]]:
    """Yield a line's references to its images; none if the site will refuse the line."""
    if b'"images"' not in line:
        return
    try:
        event = json.loads(line)
    except ValueError:
        return
    if not isinstance(event, dict) or event.get("type") != "turn":
        return
    images = event.get("images")
    for image in images if isinstance(images, list) else []:
        with suppress(ImageError):
            image_path(Path(), image if isinstance(image, dict) else {})
            yield image
