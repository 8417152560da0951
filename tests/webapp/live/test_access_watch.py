"""One check of access for all sockets alike, and none for sockets that have left."""

from __future__ import annotations

import pytest

from tests.patience import eventually
from webapp.live import access_watch
from webapp.live.access_watch import AccessWatch


class Socket:
    """A socket that records its checks and what it is told."""

    def __init__(self, watch: AccessWatch, key: str, access: str = "yes") -> None:
        self.watch, self.key, self.access = watch, key, access
        self.checks = 0
        self.told: list[object] = []
        watch.join(self)

    def access_key(self) -> str:
        return self.key

    async def check_access(self) -> str:
        self.checks += 1
        return self.access

    def on_access(self, access: object) -> None:
        self.told.append(access)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> AccessWatch:
    monkeypatch.setattr(access_watch, "ACCESS_INTERVAL", 0.02)
    return AccessWatch()


async def test_one_check_answers_all_sockets_alike(watch: AccessWatch) -> None:
    alike = [Socket(watch, "public run") for _ in range(50)]
    other = Socket(watch, "member of a team", access="no")
    await eventually(lambda: len(other.told) >= 3)
    assert all(socket.told[:2] == ["yes", "yes"] for socket in alike)
    assert set(other.told) == {"no"}
    assert sum(socket.checks for socket in alike) <= other.checks + 1
    for socket in (*alike, other):
        watch.leave(socket)


async def test_a_socket_that_left_is_told_nothing_and_the_last_ends_the_checks(watch: AccessWatch) -> None:
    first, second = Socket(watch, "public run"), Socket(watch, "public run")
    await eventually(lambda: len(first.told) >= 1)
    watch.leave(first)
    known = len(first.told)
    reached = len(second.told) + 3
    await eventually(lambda: len(second.told) >= reached)
    assert len(first.told) == known
    watch.leave(second)
    checks = first.checks + second.checks
    third = Socket(watch, "again")
    await eventually(lambda: third.checks >= 2)
    assert first.checks + second.checks == checks
    watch.leave(third)
