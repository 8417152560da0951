"""A server of the OpenEnv protocol for tests, and the same environment for openenv-core's own server.

The messages are those that openenv-core 0.3.0 and openenv 0.10.0 were seen to send. Some numbers make the environment
misbehave: see `TROUBLE`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

ABOUT = "Find a number from the answers to your guesses."
ACTION_SCHEMA = {
    "additionalProperties": False,
    "properties": {
        "metadata": {"additionalProperties": True, "title": "Metadata", "type": "object"},
        "number": {"description": "Your guess.", "title": "Number", "type": "integer"},
    },
    "required": ["number"],
    "title": "GuessAction",
    "type": "object",
}
TROUBLE = {
    -1: "raises",
    -2: "hangs",
    -3: "closes the connection",
    -4: "sends no JSON",
    -5: "sends a message of another type",
    -6: "sends an observation without fields",
    -7: "gives a reward that is not a number",
    -8: "sends a list",
}


def answer_to(target: int, number: int) -> tuple[str, float, bool]:
    """Message, reward and end of a guess."""
    if number == target:
        return "Right.", 1.0, True
    return ("Higher." if number < target else "Lower."), 0.0, False


class GuessServer:
    """Sessions of the game, at most so many at a time. Descriptions are sent after `delay` seconds."""

    def __init__(self, max_sessions: int = 8, actions: dict[str, Any] | None = None, delay: float = 0.0) -> None:
        self.delay = delay
        self.max_sessions = max_sessions
        self.actions = ACTION_SCHEMA if actions is None else actions
        self.sessions = 0
        self.steps: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def http(self, connection: ServerConnection, request: Request) -> Response | None:
        """Descriptions over HTTP; None for the WebSocket."""
        pages: dict[str, Any] = {
            "/schema": {"action": self.actions, "observation": {}, "state": {}},
            "/metadata": {"name": "Guess", "description": ABOUT, "version": "1.0.0"},
        }
        if request.path == "/ws":
            return None
        if request.path in pages:
            time.sleep(self.delay)
            body = json.dumps(pages[request.path]).encode()
            headers = Headers([("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
            return Response(HTTPStatus.OK, "OK", headers, body)
        return connection.respond(HTTPStatus.FORBIDDEN, "no such page\n")

    def session(self, connection: ServerConnection) -> None:
        """One session: until it is closed by either side."""
        with self._lock:
            full = self.sessions >= self.max_sessions
            self.sessions += not full
        if full:
            text = f"Server at capacity: {self.sessions}/{self.max_sessions} sessions active."
            connection.send(json.dumps(error("CAPACITY_REACHED", text)))
            return
        try:
            self._play(connection)
        except ConnectionClosed:
            pass
        finally:
            with self._lock:
                self.sessions -= 1

    def _play(self, connection: ServerConnection) -> None:
        target = 0
        for text in connection:
            message = json.loads(text)
            data = message.get("data", {})
            match message["type"]:
                case "reset":
                    top = data.get("top", 10)
                    target = (data.get("seed") or 0) % top
                    connection.send(json.dumps(observation(f"Guess a number below {top}.", None, False)))
                case "step":
                    self.steps.append(data)
                    if not isinstance(data.get("number"), int):
                        problem = {"loc": ["number"], "msg": "Field required", "type": "missing"}
                        answer = error("VALIDATION_ERROR", "Invalid message")
                        answer["data"]["errors"] = [problem]
                        connection.send(json.dumps(answer))
                    elif (number := data["number"]) in TROUBLE:
                        _misbehave(connection, number)
                    else:
                        connection.send(json.dumps(observation(*answer_to(target, number))))
                case "close":
                    return


def _misbehave(connection: ServerConnection, number: int) -> None:
    match number:
        case -1:
            connection.send(json.dumps(error("EXECUTION_ERROR", "the board is gone")))
        case -2:
            time.sleep(4)
        case -3:
            connection.close(1011, "out of memory")
        case -4:
            connection.send("<html>")
        case -5:
            connection.send(json.dumps({"type": "state", "data": {"step_count": 1}}))
        case -6:
            connection.send(json.dumps({"type": "observation", "data": {"reward": 1}}))
        case -7:
            connection.send(json.dumps(observation("Hm.", "much", False)))
        case -8:
            connection.send("[1, 2]")


def observation(message: str, reward: Any, done: bool) -> dict[str, Any]:
    """A message of the server with an observation."""
    return {"type": "observation", "data": {"observation": {"message": message}, "reward": reward, "done": done}}


def error(code: str, message: str) -> dict[str, Any]:
    """A message of the server with an error."""
    return {"type": "error", "data": {"message": message, "code": code}}


@contextmanager
def serving(game: GuessServer, port: int = 0) -> Iterator[str]:
    """Serve the game from threads of this process. Yields the address."""
    server: Server = serve(game.session, "127.0.0.1", port, process_request=game.http)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
    finally:
        server.shutdown()
        thread.join()


def main(port: int) -> None:
    """The same game on openenv-core's own server."""
    import uvicorn
    from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
    from openenv.core.env_server.types import EnvironmentMetadata
    from pydantic import Field

    class GuessAction(Action):
        number: int = Field(description="Your guess.")

    class GuessObservation(Observation):
        message: str

    class Guess(Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True
        target = 0

        def reset(self, seed=None, episode_id=None, top=10, **_):
            self.target = (seed or 0) % top
            return GuessObservation(message=f"Guess a number below {top}.")

        def step(self, action, timeout_s=None, **_):
            if action.number == -1:
                raise RuntimeError("the board is gone")
            message, reward, done = answer_to(self.target, action.number)
            return GuessObservation(message=message, reward=reward, done=done)

        @property
        def state(self):
            return State()

        def get_metadata(self):
            return EnvironmentMetadata(name="Guess", description=ABOUT)

    app = create_fastapi_app(Guess, GuessAction, GuessObservation, max_concurrent_envs=2)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))
