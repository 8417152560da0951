"""Text of websocket frames of events, both stored frames and frames joined for many sockets."""

from __future__ import annotations

from collections.abc import Iterable

FRAME_TAIL = "]}"


def frame_head(first: int, last: int) -> str:
    """Return the text of a frame before its first event."""
    return f'{{"type":"events","first":{first},"last":{last},"events":['


def frame_text(first: int, last: int, events: Iterable[str]) -> str:
    """Return the frame of the events `first` to `last`, each given as JSON."""
    return f"{frame_head(first, last)}{','.join(events)}{FRAME_TAIL}"
