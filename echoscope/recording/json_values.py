"""Converts any Python value to JSON that a site can store: no half characters, finite numbers, limited depth and size.

No function raises, whatever an object of another program does: it may fail even where its class is looked up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

MAX_DEPTH = 64
"""Levels of nesting that readers of the journal accept."""
MAX_VALUES = 2**19
"""Values in one value: as many as fit in a line that sites read. Objects that share others have a multiple of them."""
CONTAINER_VALUES = 8
"""Values for which a mapping or a list counts, as it takes so much longer."""
MAX_ITEMS = 10_000
"""Items that are read of an argument that takes a list. An iterator may have no end."""
_TOO_MANY = f"[more than {MAX_VALUES:,} values]"
MAX_INTEGER_BITS = 256
"""Larger integers are texts: Python itself refuses to write integers of more than 4,300 digits."""


def as_json(value: Any) -> Any:
    """Convert a value to JSON: non-finite numbers become texts, tuples lists, and other objects their text."""
    return _Conversion().of(value)


class _Conversion:
    """Conversion of one value, with everything in it."""

    def __init__(self) -> None:
        self.left = MAX_VALUES

    def of(self, value: Any, outer: tuple[int, ...] = ()) -> Any:
        """Convert a value; what fails is replaced by its text.

        Args:
            outer: identities of the containers around it.
        """
        self.left -= 1
        try:
            return self._of(value, outer)
        except Exception:  # noqa: BLE001 - objects of other programs
            return _to_text(value)

    def _of(self, value: Any, outer: tuple[int, ...]) -> Any:
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
            self.left -= CONTAINER_VALUES
            if isinstance(value, Mapping):
                named = {as_text(name): self.of(inner, outer) for name, inner in self._within(value.items())}
                return named if self.left > 0 else named | {"…": _TOO_MANY}
            listed = [self.of(inner, outer) for inner in self._within(value)]
            return listed if self.left > 0 else [*listed, _TOO_MANY]
        if (scalar := _scalar(value)) is not None:
            return self.of(scalar)
        return _to_text(value)

    def _within(self, items: Any) -> Iterator[Any]:
        """Yield items until the value has MAX_VALUES."""
        return itertools.takewhile(lambda _: self.left > 0, items)


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
    try:
        if isinstance(value, Mapping | list | tuple | AbstractSet):
            conversion = _Conversion()
            converted = conversion.of(value)
            if conversion.left <= 0:  # its text could be longer than the memory
                return f"{converted!s:.10000}…"
    except Exception:  # noqa: BLE001 - objects of other programs
        pass
    return _to_text(value)


def _to_text(value: Any) -> str:
    try:
        if isinstance(value, str):
            return clean_text(value)
        if isinstance(value, bytes | bytearray):
            return clean_text(value.decode(errors="replace"))
        return clean_text(str(value))
    except Exception:  # noqa: BLE001 - objects of other programs
        return f"[{type(value).__name__}]"


def number_in(value: Any) -> float | None:
    """Return the value as a number, which may be NaN or infinite; None if it is not a number."""
    try:
        try:
            return float(value)
        except OverflowError:  # an integer
            return math.inf if value > 0 else -math.inf
    except Exception:  # noqa: BLE001 - objects of other programs, such as tensors of several elements
        return None


def items_in(given: Any) -> list[Any]:
    """Return the items of an argument that takes a list; a text, a mapping or anything else is the only item."""
    if given is None:
        return []
    try:
        if isinstance(given, str | bytes | Mapping):
            return [given]
        return list(itertools.islice(given, MAX_ITEMS))
    except Exception:  # noqa: BLE001 - no list, or an iterator that fails
        return [given]


def _scalar(value: Any) -> Any:
    """Return the Python number in a scalar of numpy or torch; None for anything else."""
    try:
        scalar = value.item()
    except Exception:  # noqa: BLE001 - objects of other programs
        return None
    return scalar if isinstance(scalar, bool | int | float | str) else None
