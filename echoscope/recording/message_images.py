"""Images in the messages of chat APIs: embedded ones as files, others as text. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echoscope.recording.observation_images import MAX_IMAGES, ImageError, data_uri_bytes, describe

IMAGE_PARTS = {"image_url", "input_image", "image"}
"""Types of parts with an image: of OpenAI's chat completions, of its responses, of Anthropic and Inspect."""
EMBEDDED = "[image]"
"""What stands in the text at the place of an image that is embedded."""


def image_of(part: Mapping[str, Any], before: int) -> tuple[str, bytes | None]:
    """The text that stands for a part with an image, and its file if it is embedded and can be recorded.

    Args:
        before: images of the same turn so far.
    """
    address = _address(part)
    if not address.startswith("data:"):
        return (f"[image: {address}]" if address else EMBEDDED), None
    if before >= MAX_IMAGES:
        return f"[image: left out, as a turn has at most {MAX_IMAGES}]", None
    try:
        data = data_uri_bytes(address)
        describe(data)
    except ImageError as error:
        return f"[image: {error}]", None
    return EMBEDDED, data


def with_attachments(value: Any, attachments: Mapping[str, Any]) -> Any:
    """Messages of an Inspect log, which keeps long texts and images once and refers to them as `attachment://…`."""
    if isinstance(value, str):
        name = value.removeprefix("attachment://")
        return value if name == value else attachments.get(name, value)
    if isinstance(value, list):
        return [with_attachments(inner, attachments) for inner in value]
    if isinstance(value, Mapping):
        return {name: with_attachments(inner, attachments) for name, inner in value.items()}
    return value


def without_embedded(value: Any) -> Any:
    """Fields that are kept as they are, without the files of images in them, which would fill lines of the journal."""
    if isinstance(value, str):
        return f"[image of {len(value):,} characters]" if value.startswith("data:image/") else value
    if isinstance(value, list | tuple):
        return [without_embedded(inner) for inner in value]
    if isinstance(value, Mapping):
        return {name: without_embedded(inner) for name, inner in value.items()}
    return value


def _address(part: Mapping[str, Any]) -> str:
    """The URL of a part, a `data:` one where the image is embedded; empty if it has none."""
    value = part.get("image_url") or part.get("image") or part.get("source") or ""
    if isinstance(value, Mapping):
        if value.get("data"):
            return f"data:{value.get('media_type', '')};base64,{value['data']}"
        value = value.get("url") or ""
    return value if isinstance(value, str) else ""
