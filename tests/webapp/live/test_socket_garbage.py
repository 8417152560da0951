"""Collections leave out what many open sockets hold, and free it when they have closed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from webapp.live import socket_garbage
from webapp.live.socket_garbage import SocketGarbage


class Consumer:
    """An object in a cycle, as sockets have with their tasks."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def _thaw(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(socket_garbage, "FEW", 10)
    yield
    gc.unfreeze()


def opened(garbage: SocketGarbage, count: int) -> list[Consumer]:
    consumers = [Consumer() for _ in range(count)]
    for _ in consumers:
        garbage.opened()
    return consumers


def test_few_sockets_are_collected_as_everything_else() -> None:
    before = gc.get_freeze_count()
    opened(SocketGarbage(), 10)
    assert gc.get_freeze_count() == before


def test_objects_of_many_sockets_are_set_aside_and_freed_when_half_have_closed() -> None:
    garbage, before = SocketGarbage(), gc.get_freeze_count()
    consumers = opened(garbage, 40)
    first = weakref.ref(consumers[0])
    frozen = gc.get_freeze_count()
    assert frozen > before
    consumers += opened(garbage, 40)
    assert gc.get_freeze_count() > frozen, "those that came later as well"
    last = weakref.ref(consumers[-1])
    consumers.clear()
    gc.collect()
    assert first() is not None, "the collection left it out"
    for _ in range(39):
        garbage.closed()
    assert first() is not None
    for _ in range(10):
        garbage.closed()
    assert first() is None
    assert last() is None
