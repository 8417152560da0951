"""Websockets with odd cursors, frames and visitors, in process."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from bench.fuzz import values
from bench.fuzz.site import Site

if TYPE_CHECKING:
    from asgiref.testing import ApplicationCommunicator

ROUTES = ("/ws/runs/{}/", "/ws/t/{}/")
INTERNAL_ERROR = 1011
PATIENCE = 0.02  # seconds for an answer to a frame
ANSWER_TIMEOUT = 10.0
FRAMES: tuple[Any, ...] = (
    {"type": "ping"},
    {"type": "pong"},
    {"type": "watch", "trajectory": "*"},
    {"type": "watch", "trajectory": None},
    {"type": "watch", "trajectory": "x" * 200},
    {"type": "watch"},
    {"type": ["watch"]},
    [],
    "text",
    None,
)


def conversation(dice: random.Random, site: Site) -> tuple[str, str, str, list[str | bytes]]:
    """Return visitor, path, query string and frames of a socket."""
    route = dice.randrange(2)
    arguments = site.known if dice.random() < 0.6 else site.secret
    slug = arguments["slug"] if route == 0 else arguments["slug of trajectory"]
    if dice.random() < 0.1:
        slug = values.mutated_text(dice, slug)
    query = "&".join(
        f"{name}={quote(values.text(dice).encode('utf-8', 'surrogatepass'))}"
        for name in ("after", "rebuilds")
        if dice.random() < 0.7
    )
    frames: list[str | bytes] = []
    for _ in range(dice.randrange(4)):
        kind = dice.randrange(4)
        if kind == 0:
            frames.append(values.text(dice).encode("utf-8", "surrogatepass"))
        elif kind == 1:
            frames.append(values.text(dice).encode("utf-8", "replace").decode())
        else:
            frame = dice.choice(FRAMES)
            frames.append(json.dumps(values.mutated(dice, frame) if kind == 2 else frame))
    path = ROUTES[route].format(quote(str(slug).encode("utf-8", "surrogatepass"), safe=""))
    return dice.choice(list(site.cookies)), path, query, frames


async def hold(site: Site, cookie_name: str, talk: tuple[str, str, str, list[str | bytes]]) -> tuple[list[str], str]:
    """Conduct the conversation. Returns the frames received, and a fault: an error inside the application."""
    from asgiref.testing import ApplicationCommunicator

    from webapp.asgi import application

    visitor, path, query, frames = talk
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    if cookie := site.cookies[visitor]:
        headers.append((b"cookie", f"{cookie_name}={cookie}".encode()))
    scope = {
        "type": "websocket",
        "path": unquote(path),
        "query_string": query.encode(),
        "headers": headers,
        "subprotocols": [],
    }
    socket = ApplicationCommunicator(application, scope)
    received: list[str] = []
    try:
        await socket.send_input({"type": "websocket.connect"})
        message = await socket.receive_output(ANSWER_TIMEOUT)
        if message["type"] != "websocket.accept":
            return received, _fault(message)
        for frame in frames:
            content = {"bytes": frame} if isinstance(frame, bytes) else {"text": frame}
            await socket.send_input({"type": "websocket.receive", **content})
        fault = await _read(socket, received)
        await socket.send_input({"type": "websocket.disconnect", "code": 1005})
        await socket.wait(ANSWER_TIMEOUT)
    except TimeoutError:
        return received, f"no answer within {ANSWER_TIMEOUT:.0f} s"
    except Exception as error:  # noqa: BLE001  what the application raised is the finding
        return received, f"{type(error).__name__}: {error}"
    return received, fault


async def _read(socket: ApplicationCommunicator, received: list[str]) -> str:
    """Read until nothing arrives or the socket is closed. Returns its fault."""
    while True:
        try:
            message = await asyncio.wait_for(socket.output_queue.get(), PATIENCE)
        except TimeoutError:
            if socket.future.done():
                socket.future.result()
            return ""
        if message["type"] == "websocket.close":
            return _fault(message)
        received.append(str(message.get("text") or message.get("bytes") or ""))


def _fault(message: dict[str, Any]) -> str:
    code = message.get("code")
    return f"closed with {code}" if code == INTERNAL_ERROR else ""
