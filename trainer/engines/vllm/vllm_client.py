"""HTTP client of one vLLM server: completions, weight updates, waiting while it is unavailable."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from trainer import timeouts
from trainer.config.engine import LOGPROBS_MODE
from trainer.policy.load import ModelError

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
_CONNECT_TIMEOUT = 5.0
_RESPONSE_TIMEOUT = 600.0


class ServerError(ModelError):
    """A server is unusable or stays unavailable. The message says which one, why, and what to do."""


class VllmServer:
    """A server with the learner's weights; after a restart they are loaded again before any other request.

    Args:
        url: root URL, such as http://gpu1:8000.
        timeout: maximum unavailability in seconds.
        stopped: polled while waiting; once it returns True, the wait ends with ServerError.
    Attributes:
        restarts: number of restarts noticed.
    """

    def __init__(self, url: str, timeout: float, stopped: Callable[[], bool] = lambda: False) -> None:
        self.url, self.timeout, self.stopped = url, timeout, stopped
        self.http = httpx.Client(
            timeout=httpx.Timeout(_RESPONSE_TIMEOUT, connect=_CONNECT_TIMEOUT),
            limits=httpx.Limits(max_connections=None),
        )
        self.folder, self.version = "", ""
        self.restarts, self._pushed = 0, ""
        self._lock = threading.Lock()
        self._ready = threading.Event()

    def connect(self, context: int) -> None:
        """Wait until the server is available, read its model's name and check its settings.

        Raises:
            ServerError: the server stays unavailable, was not started by `serve-vllm`, or has another context length or
                other settings.
        """
        self._wait_until_healthy(time.monotonic() + self.timeout)
        model = self._json(self.http.get(f"{self.url}/v1/models"))["data"][0]
        self.model = str(model["id"])
        if model["max_model_len"] < context:
            raise ServerError(
                f"engine.urls: {self.url} holds dialogues of {model['max_model_len']} tokens, the policy {context}: "
                f"start it with --vllm-args '--max-model-len {context}'"
            )
        if self._weights_info()["logprobs_mode"] != LOGPROBS_MODE:
            raise ServerError(
                f"engine.urls: {self.url} does not report {LOGPROBS_MODE}: leave --logprobs-mode out of --vllm-args"
            )

    def load_weights(self, folder: str, version: str) -> None:
        """Load the weights of a folder. Raises ServerError if the server stays unavailable or cannot load them."""
        self._ready.clear()
        self.folder, self.version = folder, version
        self._recover()

    def check(self) -> None:
        """Raise ServerError if an unnoticed restart caused responses to be sampled with other weights."""
        if self._ready.is_set() and self._weights_info()["version"] != self.version:
            raise ServerError(f"{self.url} lost its weights during a rollout, which cannot be used: resume the run")

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Request a completion; the same request is repeated when the server becomes unavailable.

        Raises:
            ServerError: the server is unavailable for longer than `timeout`, or rejects the request.
        """
        deadline = math.inf
        while True:
            if not self._ready.is_set():
                self._recover()
            try:
                reply = self.http.post(f"{self.url}/v1/completions", json={"model": self.model, **body})
                problem = self._rejection(reply) if reply.status_code >= 500 else ""
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
            if not problem:
                completion = self._json(reply)
                if completion["choices"][0]["finish_reason"] in ("stop", "length"):
                    return completion
                problem = "it aborted the response"  # happens while shutting down
            deadline = min(deadline, time.monotonic() + 2 * self.timeout)
            if self.stopped() or time.monotonic() > deadline:
                raise ServerError(f"engine.urls: {self.url} is reachable, but does not complete requests: {problem}")
            self._ready.clear()
            time.sleep(_RETRY_SECONDS)

    def close(self) -> None:
        """Close the connections; the server keeps running."""
        self.http.close()

    def _recover(self) -> None:
        """Wait until the server is available with the current weights; one thread does so, the others wait for it."""
        with self._lock:
            deadline = time.monotonic() + self.timeout
            while not self._ready.is_set():
                self._wait_until_healthy(deadline)
                try:
                    if self._weights_info()["version"] != self.version:
                        self.restarts += self._pushed == self.version
                        self._push()
                except httpx.TransportError:
                    continue
                self._ready.set()

    def _push(self) -> None:
        self._call("take_weights", {"folder": self.folder, "version": self.version})
        self._pushed = self.version
        self._json(self.http.post(f"{self.url}/reset_prefix_cache"))

    def _weights_info(self) -> dict[str, str]:
        return self._call("held", {})[0]

    def _call(self, method: str, arguments: dict[str, str]) -> list[dict[str, str]]:
        """Call a method of `WeightLoader` in all workers of the server."""
        reply = self.http.post(f"{self.url}/collective_rpc", json={"method": method, "kwargs": arguments})
        if reply.status_code in (404, 405):
            raise ServerError(f"engine.urls: {self.url} takes no weights: start it with `python -m trainer serve-vllm`")
        results: list[dict[str, str]] = self._json(reply)["results"]
        return results

    def _json(self, reply: httpx.Response) -> dict[str, Any]:
        if reply.is_error:
            raise ServerError(f"{self.url} rejects {reply.request.url.path} ({self._rejection(reply)})")
        content: dict[str, Any] = reply.json()
        return content

    def _rejection(self, reply: httpx.Response) -> str:
        """Return the status of an error response. Its body is only logged: the message may be shown in public."""
        logger.warning("%s answered %s with %r", self.url, reply.status_code, reply.text[:300])
        return f"status {reply.status_code}; the log holds its answer"

    def _wait_until_healthy(self, deadline: float) -> None:
        """Poll the server's health. Raises ServerError at the deadline."""
        reason = "it does not respond"
        while time.monotonic() < deadline and not self.stopped():
            try:
                if (reply := self.http.get(f"{self.url}/health", timeout=_CONNECT_TIMEOUT)).is_success:
                    return
                reason = f"it responds with status {reply.status_code}"
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__
            time.sleep(_RETRY_SECONDS)
        raise ServerError(
            f"engine.urls: {self.url} was unavailable for {self.timeout:g} s ({reason}): start it again with `python "
            f"-m trainer serve-vllm` and resume the run, or raise {timeouts.ENGINE_SERVER.variable}"
        )
