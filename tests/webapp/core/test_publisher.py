"""Shutdown of the publisher: pending messages are sent, and no thread outlives it."""

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

MESSAGES = 20
CHILD = f"""
import django
django.setup()
from webapp.core.publisher import publisher
for number in range({MESSAGES}):
    publisher().send("ends-at-once", {{"type": "notified", "number": number}})
"""


def test_a_short_lived_process_sends_its_messages_and_exits_cleanly(monkeypatch: pytest.MonkeyPatch) -> None:
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
            return {(await layer.receive(channel))["number"] for _ in range(MESSAGES)}

    assert received() == set(range(MESSAGES))


def test_a_closed_publisher_has_no_thread_and_restarts_on_use() -> None:
    publisher = Publisher()
    for _ in range(2):
        publisher.send("no-subscriber", {"type": "notified"})
        thread = publisher._thread
        assert thread.is_alive()
        publisher.close()
        assert not thread.is_alive()
        assert publisher._pending == 0
    publisher.close()
    assert thread not in threading.enumerate()
