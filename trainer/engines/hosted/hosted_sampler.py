"""Sampling from a hosted model over HTTP: dialogues proceed independently, with bounded concurrency."""

from __future__ import annotations

import asyncio
import json
import math
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.config.hosted import CONTINUE, HostedConfig
from trainer.engines.hosted.chat import HostedChat, Message
from trainer.engines.hosted.completion import Completion
from trainer.engines.hosted.costs import BudgetLimiter, UsageTotals
from trainer.engines.hosted.hosted_client import HostedClient
from trainer.engines.hosted.response_cache import ResponseCache, cache_key
from trainer.engines.sampler import SampledResponse, SamplingParams, TokenListener
from trainer.engines.stop_text import StopText
from trainer.seeds import derive

_STOP_POLL_SECONDS = 0.2
_MAX_MESSAGE_OVERHEAD = 32  # maximum tokens that a chat template adds to a message
_MAX_TOOLS_OVERHEAD = 1024  # maximum tokens that it adds to the definitions of tools: instructions for calls


class HostedSampler:
    """A `Sampler` over an endpoint, with its own event loop in a thread.

    Args:
        config: the endpoint.
        chat: encodes dialogues as ids.
        folder: contains the response cache.
        stop: `generate` ends without waiting for open requests once it returns True.
        warn: receives a sentence for each parameter that the endpoint does not accept.
    Raises:
        RefusedError: the API key is malformed.
    """

    def __init__(
        self,
        config: HostedConfig,
        chat: HostedChat,
        folder: Path,
        stop: Callable[[], bool] = lambda: False,
        warn: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.config, self.chat, self.stop, self.warn = config, chat, stop, warn
        self.client = HostedClient(config)
        self.totals = UsageTotals(config)
        self.budget = BudgetLimiter(self.totals)
        self.cache = ResponseCache(folder)
        for result in self.cache.loaded:
            self.totals.add(result.completion.usage, result.retries, result.seconds)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hosted model", daemon=True)
        self._thread.start()

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> HostedSession:
        """Like `Sampler`; the listener receives nothing, because completions are not streamed."""
        return HostedSession(self, seeds, params)

    def weights_updated(self, version: int = 0) -> None:
        """No-op: the model is not trained here."""

    def sleep(self) -> None:
        """No-op: the sampler uses no device."""

    def wake_up(self) -> None:
        """No-op: the sampler uses no device."""

    def close(self) -> None:
        """Cancel open requests and end the thread. Idempotent."""
        if self._thread.is_alive():
            self.submit(self._shut_down()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self.cache.close()

    async def _shut_down(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.client.close()

    def pass_on_notices(self) -> None:
        """Warn of changes of requests that the endpoint's responses required."""
        with suppress(queue.Empty):
            while True:
                self.warn(f"{self.config.host} rejected a request: {self.client.adaptation.notices.get_nowait()}.")

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start a coroutine in the event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def complete(self, dialogue: Dialogue, params: SamplingParams, seed: int, turn: int) -> Completion:
        """Return the next response of a dialogue, from the cache or from the endpoint.

        Raises:
            BudgetSpentError: the budget does not allow the request.
            HostedError, RefusedError: see `HostedClient.complete`.
        """
        body = request_body(self.config, dialogue, params, derive(seed, turn))
        key = cache_key(self.client.address, body, seed, turn)
        cached = self.cache.get(key)
        if cached is not None:
            return cached
        async with self.budget.reserve(dialogue.max_tokens, params.max_tokens):
            result = await self.client.complete(body)
            self.cache.put(key, result)
            self.totals.add(result.completion.usage, result.retries, result.seconds)
        return result.completion


@dataclass(frozen=True)
class Dialogue:
    """Content of a request: the messages, and the definitions of the tools that the model may call natively."""

    messages: list[Message]
    tools: list[dict[str, Any]] = field(default_factory=list)

    @property
    def max_tokens(self) -> int:
        """Return an upper limit of the number of tokens: each token has at least one byte."""
        total = sum(_length(message) + _MAX_MESSAGE_OVERHEAD for message in self.messages)
        return total + (_bytes_as_json(self.tools) + _MAX_TOOLS_OVERHEAD if self.tools else 0)


def _length(message: Message) -> int:
    content = len((message["content"] or "").encode())
    return content + (_bytes_as_json(message["tool_calls"]) if "tool_calls" in message else 0)


def _bytes_as_json(value: Any) -> int:
    return len(json.dumps(value).encode())


@dataclass(frozen=True)
class _Outcome:
    """Result of a row's request."""

    row: int
    completion: Completion | None
    error: BaseException | None


class HostedSession:
    """Dialogues, stored here as ids and sent in full each turn. See `trainer.engines.sampler.SamplingSession`."""

    def __init__(self, sampler: HostedSampler, seeds: Sequence[int], params: SamplingParams) -> None:
        self.sampler, self.params = sampler, params
        self.seeds = list(seeds)
        self.turn = [0] * len(seeds)
        self.tokens: list[list[int]] = [[] for _ in seeds]  # by row: the dialogue so far
        self._outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self._requests: dict[int, Future[Completion]] = {}

    def reset_row(self, row: int) -> None:
        self.tokens[row] = []

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """Like `SamplingSession`; ends early, with open prompts, if a stop is requested."""
        try:
            for row, ids in prompts.items():
                self.append(row, ids)
            while self._requests:
                outcome = self._next()
                self.sampler.pass_on_notices()
                if outcome is None:
                    return
                del self._requests[outcome.row]
                if outcome.completion is None:
                    raise outcome.error or RuntimeError("a request ended without a result")
                response = sampled_response(self.sampler.chat, outcome.completion, self.params.stop)
                self.tokens[outcome.row] += response.ids
                yield outcome.row, response
        finally:
            for future in self._requests.values():
                future.cancel()
            self._requests.clear()

    def append(self, row: int, ids: list[int]) -> None:
        """Request the row's next response at once."""
        self.tokens[row] += ids
        turn, self.turn[row] = self.turn[row], self.turn[row] + 1
        chat, ids = self.sampler.chat, self.tokens[row]
        dialogue = Dialogue(chat.messages(ids), chat.definitions(ids))
        future = self.sampler.submit(self.sampler.complete(dialogue, self.params, self.seeds[row], turn))
        self._requests[row] = future
        future.add_done_callback(lambda done: self._outcomes.put(_outcome(row, done)))

    def _next(self) -> _Outcome | None:
        """Return the next outcome, or None if a stop is requested."""
        while True:
            try:
                return self._outcomes.get(timeout=_STOP_POLL_SECONDS)
            except queue.Empty:
                if self.sampler.stop():
                    return None


def _outcome(row: int, future: Future[Completion]) -> _Outcome:
    if future.cancelled():
        return _Outcome(row, None, None)
    error = future.exception()
    return _Outcome(row, None, error) if error else _Outcome(row, future.result(), None)


def request_body(config: HostedConfig, dialogue: Dialogue, params: SamplingParams, seed: int) -> dict[str, Any]:
    """Build the JSON body of a chat completion request, before its adaptation to the endpoint."""
    body: dict[str, Any] = {
        "model": config.model,
        "messages": dialogue.messages,
        "max_tokens": params.max_tokens,
        "temperature": params.temperature,
        "seed": seed,
        "logprobs": True,
    }
    if dialogue.tools:
        body["tools"] = dialogue.tools
    body |= config.extra_body
    if dialogue.messages[-1]["role"] != "assistant":
        body.pop(CONTINUE, None)
    elif config.prefills:
        body.setdefault("add_generation_prompt", False)
    return body


def sampled_response(chat: HostedChat, completion: Completion, stop: StopText | None = None) -> SampledResponse:
    """Convert a completion to ids: the endpoint's tokens if reported, otherwise bytes, then an id for each call.

    Unknown values are NaN. Text after the stop text is dropped here, not by the endpoint: APIs omit the stop text
    itself, and do not say whether the model ended or was stopped.
    """
    if completion.context_exceeded:
        return SampledResponse(ended=True, context_exceeded=True)
    if completion.tokens is None:
        ids = chat.tokens.encode(completion.text)
        logprobs = [math.nan] * len(ids)
    else:
        ids, logprobs = chat.tokens.intern(completion.tokens), list(completion.logprobs)
    length = stop.length(ids) if stop else None
    ids, logprobs = ids[:length], logprobs[:length]
    calls = chat.tokens.intern_calls(completion.calls)
    ids, logprobs = ids + calls, logprobs + [math.nan] * len(calls)
    return SampledResponse(
        ids,
        logprobs,
        entropies=[math.nan] * len(ids),
        ended=completion.ended,
        stopped=length is not None,
        reported_tokens=completion.usage.completion,
    )
