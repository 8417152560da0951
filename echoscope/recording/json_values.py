"""Converts any Python value to JSON that a site can store: no half characters, finite numbers, limited depth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

MAX_DEPTH = 64
"""Levels of nesting that readers of the journal accept."""
MAX_INTEGER_BITS = 256
"""Larger integers are texts: Python itself refuses to write integers of more than 4,300 digits."""


def as_json(value: Any, outer: tuple[int, ...] = ()) -> Any:
    """Convert a value to JSON: non-finite numbers become texts, tuples lists, and other objects their text.

    Args:
        outer: identities of the containers around it.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MAX_INTEGER_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping | list | tuple | AbstractSet):
        if len(outer) == MAX_DEPTH or id(value) in outer:
            return f"[more than {MAX_DEPTH} levels]"
        outer = (*outer, id(value))
        if isinstance(value, Mapping):
            return {as_text(name): as_json(inner, outer) for name, inner in value.items()}
        return [as_json(inner, outer) for inner in value]
    if (scalar := _scalar(value)) is not None:
        return as_json(scalar)
    return as_text(value)


def clean_text(text: str) -> str:
    """Make a text encodable and storable: halves of surrogate pairs become U+FFFD, and NUL its symbol."""
    text = str.__str__(text).replace("\0", "␀")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def as_text(value: Any) -> str:
    """Return the text of any object; its type if it has none."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bytes | bytearray):
        return clean_text(value.decode(errors="replace"))
    try:
        return clean_text(str(value))
    except Exception:  # noqa: BLE001 - objects of other programs
        return f"[{type(value).__name__}]"


def number_in(value: Any) -> float | None:
    """Return the value as a number, which may be NaN or infinite; None if it is not a number."""
    try:
        return float(value)
    except OverflowError:  # an integer
        return math.inf if value > 0 else -math.inf
    except Exception:  # noqa: BLE001 - objects of other programs, such as tensors of several elements
        return None


def _scalar(value: Any) -> Any:
    """Return the Python number in a scalar of numpy or torch; None for anything else."""
    try:
        scalar = value.item()
    except Exception:  # noqa: BLE001 - objects of other programs
        return None
    return scalar if isinstance(scalar, bool | int | float | str) else None
