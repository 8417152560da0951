"""A sampler whose model is asked over HTTP: every dialogue goes on by itself, as many at once as are allowed.

One request's fate is endpoint.py's business, its price account.py's; what the ids mean is chat.py's.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config.hosted import HostedConfig
from trainer.engines.base import SampledResponse, SamplingParams, TokenListener
from trainer.engines.hosted.chat import HostedChat, Message
from trainer.engines.hosted.completion import Completion
from trainer.engines.hosted.costs import BudgetLimiter, UsageTotals
from trainer.engines.hosted.hosted_client import HostedClient
from trainer.engines.hosted.response_cache import ResponseCache, key_of
from trainer.seeds import derive

_LOOK_EVERY = 0.2  # seconds between two looks at whether the run is asked to stop
_MESSAGE_TOKENS = 32  # most that a template puts around a message
UNKNOWN = float("nan")


class HostedSampler:
    """A `Sampler` over an endpoint, with an event loop of its own in a thread.

    Args:
        config: the endpoint.
        chat: how dialogues are written as ids.
        folder: where answers are kept; what lies there is not asked for again.
        stop: once it says True, `generate` ends without waiting for answers.
    Raises:
        RefusedError: the key cannot be one.
    """

    def __init__(
        self, config: HostedConfig, chat: HostedChat, folder: Path, stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.config, self.chat, self.stop = config, chat, stop
        self.endpoint = HostedClient(config)
        self.account = UsageTotals(config)
        self.purse = BudgetLimiter(self.account)
        self.ledger = ResponseCache(folder)
        for paid in self.ledger.paid:
            self.account.answered(paid.answer.usage, paid.retries, paid.seconds)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hosted model", daemon=True)
        self._thread.start()

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> HostedSession:
        """Nobody is shown a thought while it is written: an answer comes whole."""
        return HostedSession(self, seeds, params)

    def weights_updated(self) -> None:
        """Nothing to do: the weights are somebody else's."""

    def sleep(self) -> None:
        """It holds no device."""

    def wake_up(self) -> None:
        """It holds no device."""

    def close(self) -> None:
        """Break off what is under way. Harmless when done."""
        if self._thread.is_alive():
            self.run(self._leave()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self.ledger.close()

    async def _leave(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.endpoint.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Begin something in the event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def answer(self, messages: list[Message], params: SamplingParams, seed: int, turn: int) -> Completion:
        """The answer to a dialogue, from the ledger or from the endpoint.

        Raises:
            BudgetSpentError: there is no money left for it.
            HostedError, RefusedError: as the endpoint has it.
        """
        body = request(self.config, messages, params, derive(seed, turn))
        key = key_of(self.endpoint.address, body, seed, turn)
        known = self.ledger.find(key)
        if known is not None:
            return known
        written = sum(len(message["content"].encode()) + _MESSAGE_TOKENS for message in messages)  # a byte or more each
        async with self.purse.hold(written, params.max_tokens):
            asked = await self.endpoint.ask(body)
            self.ledger.keep(key, asked)
            self.account.answered(asked.answer.usage, asked.retries, asked.seconds)
        return asked.answer


@dataclass(frozen=True)
class _Done:
    """What became of a row's request."""

    row: int
    answer: Completion | None
    error: BaseException | None


class HostedSession:
    """Dialogues held as ids here and sent whole each time. See `trainer.engines.base.SamplingSession`."""

    def __init__(self, sampler: HostedSampler, seeds: Sequence[int], params: SamplingParams) -> None:
        self.sampler, self.params = sampler, params
        self.seeds = list(seeds)
        self.turn = [0] * len(seeds)
        self.held: list[list[int]] = [[] for _ in seeds]
        self._done: queue.SimpleQueue[_Done] = queue.SimpleQueue()
        self._under_way: dict[int, Future[Completion]] = {}

    def reset_row(self, row: int) -> None:
        self.held[row] = []

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """As in `Session`; ends early, with rows left unanswered, once the run is asked to stop."""
        try:
            for row, ids in prompts.items():
                self.append(row, ids)
            while self._under_way:
                done = self._next()
                if done is None:
                    return
                del self._under_way[done.row]
                if done.answer is None:
                    raise done.error or RuntimeError("a request ended without an answer")
                response = sampled(self.sampler.chat, done.answer)
                self.held[done.row] += response.ids
                yield done.row, response
        finally:
            for future in self._under_way.values():
                future.cancel()
            self._under_way.clear()

    def append(self, row: int, ids: list[int]) -> None:
        """Ask for the row's next response at once."""
        self.held[row] += ids
        turn, self.turn[row] = self.turn[row], self.turn[row] + 1
        messages = self.sampler.chat.messages(self.held[row])
        future = self.sampler.run(self.sampler.answer(messages, self.params, self.seeds[row], turn))
        self._under_way[row] = future
        future.add_done_callback(lambda done: self._done.put(_outcome(row, done)))

    def _next(self) -> _Done | None:
        """The next answer, or None once the run is asked to stop."""
        while True:
            try:
                return self._done.get(timeout=_LOOK_EVERY)
            except queue.Empty:
                if self.sampler.stop():
                    return None


def _outcome(row: int, future: Future[Completion]) -> _Done:
    if future.cancelled():
        return _Done(row, None, None)
    error = future.exception()
    return _Done(row, None, error) if error else _Done(row, future.result(), None)


def request(config: HostedConfig, messages: list[Message], params: SamplingParams, seed: int) -> dict[str, Any]:
    """The body of a chat completion's request."""
    without = config.unsupported_params
    body: dict[str, Any] = {"model": config.model, "messages": _addressed(messages, merged="system" in without)}
    body[config.max_tokens_param] = params.max_tokens
    if "temperature" not in without:
        body["temperature"] = params.temperature
    if "seed" not in without:
        body["seed"] = seed
    if "logprobs" not in without:
        body["logprobs"] = True
    if config.prefill:
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    return body | config.extra_body


def _addressed(messages: list[Message], *, merged: bool) -> list[Message]:
    if not merged or len(messages) < 2 or messages[0]["role"] != "system":
        return messages
    first = {"role": "user", "content": messages[0]["content"] + "\n\n" + messages[1]["content"]}
    return [first, *messages[2:]]


def sampled(chat: HostedChat, answer: Completion) -> SampledResponse:
    """An answer as ids: the endpoint's tokens where it tells them, else bytes; what is not known is NaN."""
    if answer.full:
        return SampledResponse(ended=True, full=True)
    if answer.pieces is None:
        ids = chat.pieces.encode(answer.text)
        logprobs = [UNKNOWN] * len(ids)
    else:
        ids, logprobs = chat.pieces.intern(answer.pieces), list(answer.logprobs)
    return SampledResponse(ids, logprobs, [UNKNOWN] * len(ids), answer.ended, counted=answer.usage.completion)
