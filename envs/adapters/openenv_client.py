"""Client of OpenEnv servers: a WebSocket per episode with JSON messages, and a description over HTTP.

It implements the part of the protocol that episodes need (`reset`, `step`, `close`), which is the same in openenv-core
0.3 and openenv 0.10. Their client requires some forty packages of a server.
"""

from __future__ import annotations

import json
import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from envs.support.addresses import checked_address

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

MAX_MESSAGE = 4 * 2**20
"""Maximum size of a message or description in bytes."""
_MAX_REASON = 300
_CLOSE_TIMEOUT = 1.0
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


class OpenEnvError(RuntimeError):
    """The server is unavailable, hangs, breaks the protocol or reports an error. The message says which."""


class ActionRefusedError(OpenEnvError):
    """The server does not accept this action; the episode continues."""


@dataclass(frozen=True)
class Observation:
    """Answer to a reset or step: fields of the observation by name, reward, and whether the episode is over."""

    fields: dict[str, Any]
    reward: float
    done: bool


@dataclass(frozen=True)
class ServerDescription:
    """A server's description of its environment; empty if it does not answer."""

    name: str = ""
    about: str = ""
    action_schema: dict[str, Any] = field(default_factory=dict)
    """JSON schema of an action."""


def server_address(address: str) -> str:
    """Return the address of a server without a final slash. Raises ValueError."""
    return checked_address(address, _SCHEMES, "http://localhost:8000").rstrip("/")


def describe_server(address: str, timeout: float) -> ServerDescription:
    """Return the description of the environment; empty if the server has none.

    Raises:
        OpenEnvError: the server is unavailable or does not answer in time.
    """
    web = "http" + _socket_address(address).removeprefix("ws").removesuffix("/ws")
    one_request = httpx.Limits(max_keepalive_connections=0)  # some servers close a connection without notice
    with httpx.Client(timeout=timeout, trust_env=False, follow_redirects=False, limits=one_request) as client:
        try:
            schema, about = _fetched(client, f"{web}/schema"), _fetched(client, f"{web}/metadata")
        except httpx.TimeoutException:
            raise OpenEnvError(
                f"the OpenEnv server {address} did not describe its actions within {timeout:g} s"
            ) from None
        except httpx.TransportError as error:
            raise OpenEnvError(f"the OpenEnv server {address} did not describe its actions: {error}") from None
    action, name = schema.get("action"), str(about.get("name") or "")
    description = str(about.get("description") or "")
    return ServerDescription(
        name=name,
        about="" if description == f"{name} environment" else description,  # the text of a server without a description
        action_schema=action if isinstance(action, dict) else {},
    )


def _fetched(client: httpx.Client, url: str) -> dict[str, Any]:
    """Return the JSON object at an address; empty if there is none. Raises httpx.TransportError."""
    data = bytearray()
    try:
        with client.stream("GET", url) as response:
            if response.status_code != httpx.codes.OK:
                return {}
            for part in response.iter_bytes():
                data += part
                if len(data) > MAX_MESSAGE:
                    return {}
        decoded = json.loads(data)
    except (httpx.DecodingError, ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _socket_address(address: str) -> str:
    scheme, _, rest = server_address(address).partition("://")
    return f"{_SCHEMES[scheme.lower()]}://{rest}/ws"


class OpenEnvConnection:
    """A connection, which is one session of the server with a separate environment.

    Args:
        address: address of the server.
        timeout: seconds for the connection, and for each answer.
    Raises:
        OpenEnvError: the connection failed.
    """

    def __init__(self, address: str, timeout: float) -> None:
        from websockets.exceptions import InvalidHandshake, InvalidStatus
        from websockets.sync.client import connect

        self.address, self.timeout = address, timeout
        self._opened = ExitStack()
        try:
            self._socket: ClientConnection = self._opened.enter_context(
                connect(
                    _socket_address(address),
                    open_timeout=timeout,
                    close_timeout=_CLOSE_TIMEOUT,
                    max_size=MAX_MESSAGE,
                    ping_timeout=None,  # a server that computes a step for long answers no ping
                    proxy=None,
                )
            )
        except TimeoutError:
            raise OpenEnvError(
                f"the OpenEnv server {address} did not accept a connection within {timeout:g} s"
            ) from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise OpenEnvError(f"the OpenEnv server {address} cannot be reached: {reason}") from None
        except InvalidStatus as error:
            raise OpenEnvError(
                f"{address} is no OpenEnv server: it refused a WebSocket at /ws (HTTP {error.response.status_code})"
            ) from None
        except (InvalidHandshake, EOFError) as error:
            raise OpenEnvError(f"{address} is no OpenEnv server: {_short(error)}") from None

    def reset(self, **arguments: Any) -> Observation:
        """Start an episode. Raises OpenEnvError."""
        try:
            return self._observation("reset", arguments)
        except ActionRefusedError as error:
            raise OpenEnvError(f"{error}: these arguments of reset are not its own") from None

    def step(self, action: dict[str, Any]) -> Observation:
        """Take an action. Raises ActionRefusedError if it does not fit the server's schema, or OpenEnvError."""
        return self._observation("step", action)

    def close(self) -> None:
        """End the session."""
        from websockets.exceptions import ConnectionClosed

        try:
            self._socket.send(json.dumps({"type": "close"}))
        except (ConnectionClosed, OSError):
            pass
        self._opened.close()

    def _observation(self, call: str, data: dict[str, Any]) -> Observation:
        answer = self._answer(call, data)
        content = answer.get("data")
        if answer.get("type") == "error":
            raise self._error(call, content if isinstance(content, dict) else {})
        if answer.get("type") != "observation" or not isinstance(content, dict):
            raise self._broken(f"answered {call} with {_short(answer.get('type'))} instead of an observation")
        observation, done, reward = content.get("observation"), content.get("done", False), content.get("reward")
        if not isinstance(observation, dict) or not isinstance(done, bool):
            raise self._broken(f"answered {call} with an observation without its fields")
        if reward is not None and not (isinstance(reward, int | float) and math.isfinite(reward)):
            raise self._broken(f"answered {call} with the reward {_short(reward)}, which is not a number")
        return Observation(observation, float(reward or 0.0), done)

    def _answer(self, call: str, data: dict[str, Any]) -> dict[str, Any]:
        from websockets.exceptions import ConnectionClosed

        deadline = time.monotonic() + self.timeout
        try:
            try:
                self._socket.send(json.dumps({"type": call, "data": data}))
            except ConnectionClosed:
                pass  # its last message may say why
            text = self._socket.recv(timeout=max(0.0, deadline - time.monotonic()), decode=True)
        except TimeoutError:
            self._opened.close()  # its answer would be taken for the answer to the next call
            raise OpenEnvError(
                f"the OpenEnv server {self.address} did not answer {call} within {self.timeout:g} s"
            ) from None
        except (ConnectionClosed, OSError) as error:
            raise OpenEnvError(
                f"the OpenEnv server {self.address} closed the connection at {call}: {_short(error)}"
            ) from None
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._broken(f"answered {call} with something that is no JSON object")
        return answer

    def _error(self, call: str, content: dict[str, Any]) -> OpenEnvError:
        message = _short(content.get("message") or "no reason given")
        if content.get("code") == "VALIDATION_ERROR":
            return ActionRefusedError(f"the server does not accept it: {_first_problem(content) or message}")
        if content.get("code") == "CAPACITY_REACHED":
            return OpenEnvError(
                f"the OpenEnv server {self.address} has no free session: allow as many as there are trajectories at a "
                f"time (max_concurrent_envs of the server). It says: {message}"
            )
        return OpenEnvError(f"the OpenEnv server {self.address} failed at {call}: {message}")

    def _broken(self, what: str) -> OpenEnvError:
        return OpenEnvError(f"{self.address} breaks the OpenEnv protocol: it {what}")


def _first_problem(content: dict[str, Any]) -> str:
    """Return field and reason of the first validation error."""
    errors = content.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    if not isinstance(first, dict):
        return ""
    where = ".".join(str(part) for part in first.get("loc") or ())
    return _short(f"{where + ': ' if where else ''}{first.get('msg', '')}")


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 1] + "…"
