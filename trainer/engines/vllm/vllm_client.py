"""One vLLM server as the trainer sees it: asked for responses, given weights, waited for when it is away.

Which rows go to which server, and what a dialogue is, is server.py's business.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from trainer.policy.load import ModelError

_PAUSE = 0.5  # seconds between two questions whether it is back
_CONNECT = 5.0
_ANSWER = 600.0


class ServerError(ModelError):
    """A server that cannot be used, or stays away. The message says which, why and what to do."""


class VllmServer:
    """A server that shall hold certain weights; a restarted one is given them again before it is asked anything.

    Args:
        url: its root, as in http://gpu1:8000.
        patience: longest absence in seconds.
        stopped: asked while waiting; once it says True the wait ends with ServerError.
    """

    def __init__(self, url: str, patience: float, stopped: Callable[[], bool] = lambda: False) -> None:
        self.url, self.patience, self.stopped = url, patience, stopped
        self.http = httpx.Client(
            timeout=httpx.Timeout(_ANSWER, connect=_CONNECT), limits=httpx.Limits(max_connections=None)
        )
        self.folder, self.version = "", ""
        self.restarts, self._pushed = 0, ""
        self._lock = threading.Lock()
        self._sound = threading.Event()

    def meet(self, context: int, logprobs_mode: str) -> None:
        """Wait until it is there, and learn what it calls its model.

        Raises:
            ServerError: it stays away, is no server of ours, or was started for another context or other settings.
        """
        self._await(time.monotonic() + self.patience)
        known = self._json(self.http.get(f"{self.url}/v1/models"))["data"][0]
        self.model = str(known["id"])
        if known["max_model_len"] < context:
            raise ServerError(
                f"engine.urls: {self.url} holds dialogues of {known['max_model_len']} tokens, the policy {context}: "
                f"start it with --vllm-args '--max-model-len {context}'"
            )
        if (mode := self._held()["logprobs_mode"]) != logprobs_mode:
            wanted = "with" if logprobs_mode == "raw_logprobs" else "without"
            raise ServerError(
                f"engine.urls: {self.url} reports {mode}, but rollout's top_p, top_k and min_p want {logprobs_mode}: "
                f"start it {wanted} --raw-logprobs"
            )

    def give(self, folder: str, version: str) -> None:
        """From now on it shall hold these weights. Raises ServerError if it stays away or cannot load them."""
        self._sound.clear()
        self.folder, self.version = folder, version
        self._recover()

    def check(self) -> None:
        """Raises ServerError if it was restarted without anybody noticing, so that answers came of other weights."""
        if self._sound.is_set() and self._held()["version"] != self.version:
            raise ServerError(f"{self.url} lost its weights during a rollout, which cannot be used: resume the run")

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A completion; asked again, with the very same request, when the server goes away meanwhile.

        Raises:
            ServerError: it stays away for longer than `patience`, or refuses the request.
        """
        gives_up = math.inf
        while True:
            if not self._sound.is_set():
                self._recover()
            try:
                reply = self.http.post(f"{self.url}/v1/completions", json={"model": self.model, **body})
                trouble = f"status {reply.status_code}: {reply.text[:300]}" if reply.status_code >= 500 else ""
            except httpx.TransportError as error:
                trouble = str(error) or type(error).__name__
            if not trouble:
                answer = self._json(reply)
                if answer["choices"][0]["finish_reason"] in ("stop", "length"):
                    return answer
                trouble = "it broke off the response"  # as it does when it is told to end
            gives_up = min(gives_up, time.monotonic() + 2 * self.patience)
            if self.stopped() or time.monotonic() > gives_up:
                raise ServerError(f"engine.urls: {self.url} is there, but does not complete a request: {trouble}")
            self._lost()

    def close(self) -> None:
        """Let go of the connections; the server goes on."""
        self.http.close()

    def _lost(self) -> None:
        self._sound.clear()
        time.sleep(_PAUSE)

    def _recover(self) -> None:
        """Wait for it and see to its weights; one thread does, the others wait for that."""
        with self._lock:
            deadline = time.monotonic() + self.patience
            while not self._sound.is_set():
                self._await(deadline)
                try:
                    if self._held()["version"] != self.version:
                        self.restarts += self._pushed == self.version
                        self._push()
                except httpx.TransportError:
                    continue
                self._sound.set()

    def _push(self) -> None:
        self._call("take_weights", {"folder": self.folder, "version": self.version})
        self._pushed = self.version
        self._json(self.http.post(f"{self.url}/reset_prefix_cache"))

    def _held(self) -> dict[str, str]:
        return self._call("held", {})[0]

    def _call(self, method: str, arguments: dict[str, str]) -> list[dict[str, str]]:
        reply = self.http.post(f"{self.url}/collective_rpc", json={"method": method, "kwargs": arguments})
        if reply.status_code in (404, 405):
            raise ServerError(f"engine.urls: {self.url} takes no weights: start it with `python -m trainer serve-vllm`")
        results: list[dict[str, str]] = self._json(reply)["results"]
        return results

    def _json(self, reply: httpx.Response) -> dict[str, Any]:
        if reply.is_error:
            raise ServerError(f"{self.url} refuses {reply.request.url.path} ({reply.status_code}): {reply.text[:300]}")
        found: dict[str, Any] = reply.json()
        return found

    def _await(self, deadline: float) -> None:
        """Until it answers. Raises ServerError at the deadline."""
        reason = "it does not answer"
        while time.monotonic() < deadline and not self.stopped():
            try:
                if (reply := self.http.get(f"{self.url}/health", timeout=_CONNECT)).is_success:
                    return
                reason = f"it answers with status {reply.status_code}"
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__
            time.sleep(_PAUSE)
        raise ServerError(
            f"engine.urls: {self.url} stayed away for {self.patience:g} s ({reason}): start it again with `python -m "
            "trainer serve-vllm` and resume the run, or raise engine.server_timeout"
        )
