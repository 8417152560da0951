"""The bus of wake-up calls at its end: nothing that was sent is lost, and no thread outlives it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from tests.patience import SECONDS
from webapp.core.publisher import Publisher
from webapp.services.addresses import ROOT

POKES = 20
CHILD = f"""
import django
django.setup()
from webapp.core.publisher import bus
for number in range({POKES}):
    bus().send("ends-at-once", {{"type": "poked", "number": number}})
"""


def test_a_process_that_ends_at_once_has_sent_its_calls_and_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = get_channel_layer()
    assert layer is not None
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "webapp.settings")

    @async_to_sync
    async def received() -> set[int]:
        channel = await layer.new_channel()
        await layer.group_add("ends-at-once", channel)
        argv = [sys.executable, "-c", CHILD]
        done = await asyncio.to_thread(subprocess.run, argv, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        async with asyncio.timeout(SECONDS):
            return {(await layer.receive(channel))["number"] for _ in range(POKES)}

    assert received() == set(range(POKES))


def test_a_bus_that_was_closed_has_no_thread_and_begins_again() -> None:
    bus = Publisher()
    for _ in range(2):
        bus.send("nobody", {"type": "poked"})
        thread = bus._thread
        assert thread.is_alive()
        bus.close()
        assert not thread.is_alive()
        assert bus._pending == 0
    bus.close()
    assert thread not in threading.enumerate()
