"""HTTP client of an OpenAI-compatible endpoint, with retries."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from trainer import timeouts
from trainer.config.hosted import CONTINUE, HostedConfig
from trainer.engines.hosted import completion as parser
from trainer.engines.hosted.adaptation import RequestAdaptation
from trainer.engines.hosted.completion import CONTEXT_EXCEEDED, Completion, NotACompletionError

FIRST_BACKOFF = 0.5
RETRYABLE_STATUS = (408, 409, 425, 429)
"""Statuses below 500 after which the same request may succeed; statuses from 500 on are always retried."""
RETRIES = 6
"""Further attempts while the endpoint is busy or unreachable."""
_TOOLS_HINT = (
    "set rollout.tool_calls to answer, or let the server read calls (vLLM: --enable-auto-tool-choice and "
    "--tool-call-parser)"
)
_PAYMENT_CODES = ("insufficient_quota", "billing_not_active", "credit_balance")


class HostedError(RuntimeError):
    """The endpoint did not respond in any attempt. The message describes the failure."""


class RefusedError(ValueError):
    """The endpoint rejects the request permanently. The message says what to change."""


@dataclass(frozen=True)
class CompletionResult:
    """A completion, the number of failed attempts before it, and the latency of the last attempt in seconds."""

    completion: Completion
    retries: int
    seconds: float


class HostedClient:
    """Requests chat completions. Bound to one event loop; `close` it there.

    Args:
        config: address, credentials and concurrency.
        sleep: waits some seconds; replaceable in tests.
    Raises:
        RefusedError: the API key is malformed.
    """

    def __init__(self, config: HostedConfig, sleep: Callable[[float], Any] = asyncio.sleep) -> None:
        self.config, self.sleep = config, sleep
        self.address = f"{config.url}/chat/completions"
        self.key = os.environ.get(config.api_key_env, "").strip() if config.api_key_env else ""
        if not (self.key.isascii() and self.key.isprintable()):
            raise RefusedError(f"the key in {config.api_key_env} contains invalid characters: set it again")
        self.adaptation = RequestAdaptation(config.extra_body)
        self._random = random.Random()  # only for backoff
        self._timeout = timeouts.HOSTED_REQUEST.seconds
        self._slots = asyncio.Semaphore(config.concurrency)
        limits = httpx.Limits(max_connections=config.concurrency, max_keepalive_connections=config.concurrency)
        headers = {"User-Agent": "Echoscope/1"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        self._client = httpx.AsyncClient(limits=limits, headers=headers, timeout=self._timeout, follow_redirects=False)

    async def close(self) -> None:
        await self._client.aclose()

    async def complete(self, body: Mapping[str, Any]) -> CompletionResult:
        """Send a chat completion request without rejected parameters, and retry it while that may help.

        Raises:
            RefusedError: the endpoint rejects the request permanently.
            HostedError: no completion after all attempts, or the endpoint requests a longer wait than allowed.
        """
        failures = 0
        while True:
            requested_wait: float | None = None
            try:
                async with self._slots:
                    began = time.monotonic()
                    sent = self.adaptation.adapted(body)
                    status, headers, data = await self._post(sent)
                    seconds = time.monotonic() - began
                if status == 200:
                    return CompletionResult(parser.parse_completion(data), failures, seconds)
                if parser.is_context_exceeded(status, data):
                    return CompletionResult(CONTEXT_EXCEEDED, failures, seconds)
                message = parser.error_message(data, self.key)
                if self.adaptation.learn(status, message, sent):
                    continue
                problem = f"status {status}: {message or 'no message'}"
                self._raise_if_permanent(status, data, tools="tools" in body)
                requested_wait = retry_after(headers)
            except NotACompletionError as error:
                problem = f"{error}; is hosted.url the root of an OpenAI-compatible endpoint?"
            except TimeoutError:
                problem = f"no response within {self._timeout:g} s ({timeouts.HOSTED_REQUEST.variable})"
            except httpx.RequestError as error:
                problem = f"the connection failed: {str(error) or type(error).__name__}"
            failures += 1
            await self._wait_before_retry(failures, requested_wait, problem)

    async def _wait_before_retry(self, failures: int, requested_wait: float | None, problem: str) -> None:
        host, max_wait = self.config.host, timeouts.HOSTED_WAIT.seconds
        if failures > RETRIES:
            attempts = f"{failures} attempts" if failures > 1 else "one attempt"
            raise HostedError(
                f"{host} sent no completion in {attempts}; the last one: {problem}. Completed responses are kept: "
                "resume requests only the rest"
            )
        if requested_wait is not None and requested_wait > max_wait:
            raise HostedError(
                f"{host} requests a wait of {requested_wait:,.0f} s, which is above {timeouts.HOSTED_WAIT}; "
                f"{problem}. Completed responses are kept: resume later, or lower hosted.concurrency"
            )
        await self.sleep(backoff(failures, requested_wait, max_wait, self._random))

    async def _post(self, body: Mapping[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        """Return status, headers and body of one attempt, which may take `timeout` seconds in total."""
        async with asyncio.timeout(self._timeout):
            try:
                response = await self._client.post(self.address, json=body)
            except httpx.TimeoutException as error:
                raise TimeoutError from error
        status = response.status_code
        if status == 200 and (inner := parser.inner_status(response.content)):
            status = inner
        return status, response.headers, response.content

    def _raise_if_permanent(self, status: int, data: bytes, *, tools: bool) -> None:
        """Raise RefusedError for errors that a retry cannot fix. `tools` says whether the request defines tools."""
        host, text, code = self.config.host, parser.error_message(data, self.key), parser.error_code(data)
        detail = f": {text}" if text else ""
        variable = self.config.api_key_env
        if status == 402 or any(part in code for part in _PAYMENT_CODES):
            raise RefusedError(f"{host} requires payment{detail}. Check the account there, then resume")
        if is_retryable(status):
            return
        if tools and "tool" in text.lower() and status not in (401, 403):
            raise RefusedError(f"{host} rejects the definitions of tools ({status}){detail}. To go on, {_TOOLS_HINT}")
        if status == 401:
            problem = f"does not accept the key in {variable}" if self.key else "requires a key"
            todo = f"set {variable} to a valid key" if variable else "name the key's variable in hosted.api_key_env"
            raise RefusedError(f"{host} {problem}{detail}. On the machine of the run, {todo}, then resume")
        if status == 403:
            raise RefusedError(
                f"{host} does not let this key use {self.config.model}{detail}. Allow it there, or choose another "
                "hosted.model or key"
            )
        if status == 404:
            raise RefusedError(
                f"{host} has no model {self.config.model!r}, or {self.address} does not exist{detail}. Check "
                "hosted.model and hosted.url, which usually ends in /v1"
            )
        if 300 <= status < 400:
            raise RefusedError(f"{host} redirects, which is not followed: set hosted.url to the final address")
        hint = f"leave {CONTINUE} out of hosted.extra_body" if CONTINUE in text else "see hosted.extra_body"
        raise RefusedError(f"{host} rejects the request ({status}){detail}. To change the request, {hint}")


def is_retryable(status: int) -> bool:
    """True if a request that failed with this HTTP status may succeed when repeated."""
    return status in RETRYABLE_STATUS or status >= 500


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds to wait that the endpoint requests: Retry-After as seconds or date, or retry-after-ms.

    None if absent or malformed. Source: RFC 9110, 10.2.3.
    """
    value = headers.get("retry-after", "").strip()
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return _valid_seconds(float(milliseconds) / 1000)
        return _valid_seconds(float(value)) if value else None
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _valid_seconds(value: float) -> float | None:
    return value if 0 <= value < float("inf") else None


def backoff(failures: int, requested: float | None, max_backoff: float, rng: random.Random) -> float:
    """Return the seconds before the next attempt.

    Args:
        failures: failed attempts so far, at least 1.
        requested: seconds requested by the endpoint.
        max_backoff: upper limit of the exponential backoff, seconds.
        rng: source of the jitter.
    Returns:
        The requested wait plus up to a quarter of it, so that clients do not return all at once; without a request,
        between half and all of a time that doubles with each failure, up to `max_backoff`.
    Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (equal jitter).
    """
    if requested is not None:
        return requested + rng.uniform(0, requested / 4)
    ceiling = min(max_backoff, FIRST_BACKOFF * 2 ** min(failures - 1, 30))
    return rng.uniform(ceiling / 2, ceiling)
