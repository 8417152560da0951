"""Images in the messages of chat APIs: embedded images become files, others text. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echoscope.recording.json_values import as_json
from echoscope.recording.observation_images import MAX_IMAGES, ImageError, data_uri_bytes, describe

IMAGE_PARTS = {"image_url", "input_image", "image"}
"""Types of parts with an image in OpenAI's chat completions and responses, Anthropic's messages and Inspect."""
EMBEDDED = "[image]"
"""Text that replaces an embedded image."""


def read_image(part: Mapping[str, Any], images_before: int) -> tuple[str, bytes | None]:
    """Return the text that replaces a part with an image, and its file if it is embedded and can be recorded.

    Args:
        images_before: number of images of the same turn so far.
    """
    address = _address(part)
    if not address.startswith("data:"):
        return (f"[image: {address}]" if address else EMBEDDED), None
    if images_before >= MAX_IMAGES:
        return f"[image: left out, as a turn has at most {MAX_IMAGES}]", None
    try:
        data = data_uri_bytes(address)
        describe(data)
    except ImageError as error:
        return f"[image: {error}]", None
    return EMBEDDED, data


def with_attachments(value: Any, attachments: Mapping[str, Any]) -> Any:
    """Resolve `attachment://…` in messages of an Inspect log, which stores long texts and images only once."""
    if isinstance(value, str):
        name = value.removeprefix("attachment://")
        return value if name == value else attachments.get(name, value)
    if isinstance(value, list):
        return [with_attachments(inner, attachments) for inner in value]
    if isinstance(value, Mapping):
        return {name: with_attachments(inner, attachments) for name, inner in value.items()}
    return value


def without_embedded(value: Any) -> Any:
    """Return fields as JSON without the files of embedded images, which would fill lines of the journal.

    A value of another program may contain itself, or share its parts: the conversion to JSON limits its size.
    """
    return _without_embedded(as_json(value))


def _without_embedded(value: Any) -> Any:
    if isinstance(value, str):
        return f"[image of {len(value):,} characters]" if value.startswith("data:image/") else value
    if isinstance(value, list):
        return [_without_embedded(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _without_embedded(inner) for name, inner in value.items()}
    return value


def _address(part: Mapping[str, Any]) -> str:
    """Return the URL of a part, a `data:` URL if the image is embedded; empty if it has none."""
    value = part.get("image_url") or part.get("image") or part.get("source") or ""
    if isinstance(value, Mapping):
        if value.get("data"):
            return f"data:{value.get('media_type', '')};base64,{value['data']}"
        value = value.get("url") or ""
    return value if isinstance(value, str) else ""
