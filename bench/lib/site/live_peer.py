"""The peer of `bench.live`: the approach of Channels tutorials, sending whole batches through the channel layer.

Lines, batches per second, Redis and uvicorn are the same; no database, no cursor, no catching up.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

from channels_redis.core import RedisChannelLayer

from bench.lib.site.live_processes import lines, moments, part, web

BATCH_INTERVAL = 0.1
DRAIN_SECONDS = 3.0
GROUP = "peer"

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_layers: dict[asyncio.AbstractEventLoop, RedisChannelLayer] = {}


def layer() -> RedisChannelLayer:
    """The default layer of channels_redis with its default capacity, one for each event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _layers:
        _layers[loop] = RedisChannelLayer(hosts=[os.environ["REDIS_URL"]])
    return _layers[loop]


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Every socket joins the group and forwards its messages."""
    if scope["type"] != "websocket":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
        return
    await receive()
    channel = await layer().new_channel()
    await layer().group_add(GROUP, channel)
    await send({"type": "websocket.accept"})
    while True:
        message = await layer().receive(channel)
        await send({"type": "websocket.send", "text": message["text"]})


async def broadcast(rate: int, seconds: float, source: Path | None, shared: Path, events: int) -> None:
    """Ten batches a second to the group."""
    written, story, seq = moments(shared, events), lines(source), 0
    story = chain([next(story)], story)  # the games are played before the clock starts
    began = time.monotonic()
    while (now := time.monotonic()) - began < seconds and seq < events:
        due = min(events, int((now - began) * rate) + 1) - seq
        if due > 0:
            batch = [line.rstrip("\n") for line in islice(story, due)]
            written[seq + 1 : seq + due + 1] = time.monotonic()
            text = f'{{"type":"events","first":{seq + 1},"last":{seq + due},"events":[{",".join(batch)}]}}'
            await layer().group_send(GROUP, {"type": "frame", "text": text})
            seq += due
        await asyncio.sleep(max(0.0, BATCH_INTERVAL - (time.monotonic() - now)))
    await asyncio.sleep(DRAIN_SECONDS)


def measure(rate: int, sockets: int, seconds: float, source: Path | None) -> tuple[float, int]:
    """p99 in milliseconds, and number of lost events."""
    from webapp.services.addresses import free_port

    events, port = int(rate * seconds), free_port()
    shared = Path(os.environ["ECHOSCOPE_DATA_DIR"]) / f"peer-{rate}-{sockets}"
    words = ["--url", f"ws://localhost:{port}/", "--sockets", str(sockets), "--shared", str(shared)]
    with (
        web(port, "bench.lib.site.live_peer:application"),
        part("watch", *words, "--events", str(events)) as watch,
    ):
        assert watch.stdout is not None
        watch.stdout.readline()
        asyncio.run(broadcast(rate, seconds, source, shared, events))
        watch.send_signal(signal.SIGTERM)
        result = json.loads(watch.stdout.readline())
    return result["p99"], result["missing"]
