"""An OpenAI-compatible endpoint for tests: a real HTTP server in a thread, with responses scripted by each test."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.local_http import serving


@dataclass
class Reply:
    """Response to a request, delayed by `late` seconds; `drop` breaks the connection instead."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    late: float = 0.0
    drop: bool = False

    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def completion(
    text: str | None,
    *,
    tokens: list[str] | None = None,
    prompt: int = 100,
    written: int = 7,
    cached: int = 0,
    finish: str = "stop",
    **message: Any,
) -> Reply:
    """A chat completion; with `tokens` it tells their log-probabilities: -0.5 for the first, -1.0, and so on."""
    token_logprobs = None
    if tokens is not None:
        token_logprobs = {
            "content": [
                {"token": t, "bytes": list(t.encode()), "logprob": -0.5 * (n + 1), "top_logprobs": []}
                for n, t in enumerate(tokens)
            ]
        }
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "logprobs": token_logprobs,
        "finish_reason": finish,
    }
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return Reply(body={"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


def call(name: str, arguments: Any, identifier: str = "call_a") -> dict[str, Any]:
    """A call of a tool as the API words it; arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": text}}


def calling(*calls: Any, text: str | None = None, **reply: Any) -> Reply:
    """A chat completion that calls tools."""
    return completion(text, tool_calls=list(calls), **{"finish": "tool_calls", **reply})


def refusal(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    """An error as the API words it."""
    return Reply(status, {"error": {"message": message, "type": "some_error", "code": code}}, dict(headers))


class Server:
    """Responds with `answer(body)`; records all requests in `bodies` and `headers`.

    `most` is the largest number of concurrent requests.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Reply]) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.most = self._now = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def take(self, handler: BaseHTTPRequestHandler) -> Reply:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            self.bodies.append(body)
            self.headers.append(dict(handler.headers))
            self.paths.append(handler.path)
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            reply = self.answer(body)
            time.sleep(reply.late)
            return reply
        finally:
            with self._lock:
                self._now -= 1

    @contextmanager
    def running(self) -> Iterator[Server]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                reply = outer.take(self)
                if reply.drop:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    return
                data = reply.data()
                try:
                    self.send_response(reply.status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    for name, value in reply.headers.items():
                        self.send_header(name.replace("_", "-"), value)
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:  # the client has disconnected
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        with serving(Handler) as self.port:
            yield self


def in_turn(*replies: Reply) -> Callable[[dict[str, Any]], Reply]:
    """Each reply once, in order; the last one from then on."""
    left = list(replies)
    lock = threading.Lock()

    def answer(body: dict[str, Any]) -> Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer
