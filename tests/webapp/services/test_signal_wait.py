"""Waiting for signals: the end of a child ends it at once, also one that came before the wait."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.patience import SECONDS
from webapp.services.signal_wait import SignalWait


@pytest.fixture
def signals() -> Iterator[SignalWait]:
    with closing(SignalWait()) as signals:
        yield signals


def child(seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", f"import time; time.sleep({seconds})"])


def test_the_end_of_a_child_ends_the_wait(signals: SignalWait) -> None:
    with child(0.3) as process:
        began = time.monotonic()
        signals.wait(2 * SECONDS)
        assert time.monotonic() - began < SECONDS
        assert process.poll() == 0


def test_a_child_that_ended_before_the_wait_is_not_missed_and_ends_only_one(signals: SignalWait) -> None:
    with child(0) as process:
        process.wait(SECONDS)
    began = time.monotonic()
    signals.wait(2 * SECONDS)
    assert time.monotonic() - began < SECONDS
    began = time.monotonic()
    signals.wait(0.2)
    assert time.monotonic() - began >= 0.2
