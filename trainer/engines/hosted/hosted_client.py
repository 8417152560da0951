"""One OpenAI-compatible endpoint: a request sent until it is answered, is refused for good, or patience ends.

What is asked, and what answers cost, is sampler.py's and account.py's business.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from trainer.config.hosted import HostedConfig
from trainer.engines.hosted import completion, retry
from trainer.engines.hosted.completion import Completion, NotACompletionError
from trainer.engines.hosted.errors import HostedError, RefusedError

_HINTS = (
    ("max_completion_tokens", "set hosted.max_tokens_param to max_completion_tokens"),
    ("logprobs", "add logprobs to hosted.unsupported_params"),
    ("seed", "add seed to hosted.unsupported_params"),
    ("temperature", "add temperature to hosted.unsupported_params"),
    ("system", "add system to hosted.unsupported_params"),
    ("continue_final_message", "set hosted.prefill to off"),
)
"""A word in what an endpoint refuses, and what to change."""
_NO_MONEY = ("insufficient_quota", "billing_not_active", "credit_balance")


@dataclass(frozen=True)
class CompletionRequest:
    """An answer, the failed tries before it, and the seconds between its request and it."""

    answer: Completion
    retries: int
    seconds: float


class HostedClient:
    """Asks for chat completions. Belongs to one event loop; `close` it there.

    Args:
        config: where, and how patiently.
        sleep: waits some seconds; tests put something quicker here.
    """

    def __init__(self, config: HostedConfig, sleep: Callable[[float], Any] = asyncio.sleep) -> None:
        self.config, self.sleep = config, sleep
        self.address = f"{config.url}/chat/completions"
        self.key = os.environ.get(config.api_key_env, "").strip() if config.api_key_env else ""
        if not (self.key.isascii() and self.key.isprintable()):
            raise RefusedError(f"the key in {config.api_key_env} holds characters that no key has: set it anew")
        self._draw = random.Random()  # only waits depend on it
        self._slots = asyncio.Semaphore(config.concurrency)
        limits = httpx.Limits(max_connections=config.concurrency, max_keepalive_connections=config.concurrency)
        headers = {"User-Agent": "Echoscope/1"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        self._client = httpx.AsyncClient(limits=limits, headers=headers, timeout=config.timeout, follow_redirects=False)

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, body: Mapping[str, Any]) -> CompletionRequest:
        """The answer to a request.

        Raises:
            RefusedError: the endpoint will not have it.
            HostedError: no answer after all tries, or one that asks for more patience than there is.
        """
        failed = 0
        while True:
            asked: float | None = None
            try:
                async with self._slots:
                    began = time.monotonic()
                    status, headers, data = await self._post(body)
                    seconds = time.monotonic() - began
                if status == 200:
                    return CompletionRequest(completion.parse_completion(data), failed, seconds)
                if completion.is_context_exceeded(status, data):
                    return CompletionRequest(completion.CONTEXT_EXCEEDED, failed, seconds)
                problem = f"it said {status}: {completion.error_message(data, self.key) or 'nothing more'}"
                self._refused(status, data)
                asked = retry.retry_after(headers)
            except NotACompletionError as error:
                problem = f"{error}; is hosted.url the root of an OpenAI-compatible endpoint?"
            except TimeoutError:
                problem = f"no answer within {self.config.timeout:g} s (hosted.timeout)"
            except httpx.RequestError as error:
                problem = f"the connection failed: {str(error) or type(error).__name__}"
            failed += 1
            await self._pause(failed, asked, problem)

    async def _pause(self, failed: int, asked: float | None, problem: str) -> None:
        """Wait before the next try, or tell that there will be none."""
        where, patient = self.config.host, self.config.max_backoff
        if failed > self.config.retries:
            times = f"{failed} tries" if failed > 1 else "one try"
            raise HostedError(
                f"{where} gave no answer in {times}; the last time {problem}. What was answered before is kept: "
                "resume asks only for the rest"
            )
        if asked is not None and asked > patient:
            raise HostedError(
                f"{where} asks to come back in {asked:,.0f} s, and hosted.max_backoff is {patient:g} s; {problem}. "
                "What was answered before is kept: resume later, or lower hosted.concurrency"
            )
        await self.sleep(retry.backoff(failed, asked, patient, self._draw))

    async def _post(self, body: Mapping[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body of one try, in `timeout` seconds in all: a trickle must not hold us forever."""
        async with asyncio.timeout(self.config.timeout):
            try:
                response = await self._client.post(self.address, json=body)
            except httpx.TimeoutException as error:
                raise TimeoutError from error
        status = response.status_code
        if status == 200 and (inner := completion.inner_status(response.content)):
            status = inner
        return status, response.headers, response.content

    def _refused(self, status: int, data: bytes) -> None:
        """Raise RefusedError for what another try cannot mend."""
        where, text, code = self.config.host, completion.error_message(data, self.key), completion.error_code(data)
        said = f": {text}" if text else ""
        variable = self.config.api_key_env
        if status == 402 or any(sign in code for sign in _NO_MONEY):
            raise RefusedError(f"{where} wants to be paid{said}. Look after the account there, then resume")
        if retry.is_retryable(status):
            return
        if status == 401:
            what = f"does not accept the key in {variable}" if self.key else "wants a key"
            todo = f"set {variable} to a valid key" if variable else "name the key's variable in hosted.api_key_env"
            raise RefusedError(f"{where} {what}{said}. Where the run is played, {todo}, then resume")
        if status == 403:
            raise RefusedError(
                f"{where} does not let this key use {self.config.model}{said}. Allow it there, or choose another "
                "hosted.model or key"
            )
        if status == 404:
            raise RefusedError(
                f"{where} knows no model {self.config.model!r}, or nothing is at {self.address}{said}. Check "
                "hosted.model and hosted.url, which mostly ends in /v1"
            )
        if 300 <= status < 400:
            raise RefusedError(f"{where} sends elsewhere, which is not followed: give the final address as hosted.url")
        hint = next(
            (todo for word, todo in _HINTS if word in text),
            "see hosted.unsupported_params, hosted.max_tokens_param and hosted.extra_body for what is sent",
        )
        raise RefusedError(f"{where} refuses the request ({status}){said}. To change that, {hint}")
