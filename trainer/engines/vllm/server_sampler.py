"""Sampling with remote vLLM servers that share the rows. Their weights come from weight_push.py."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from trainer import timeouts
from trainer.config.engine import MAX_ROWS
from trainer.config.run import RunConfig
from trainer.engines.sampler import DIVERGED_MESSAGE, DivergedError, SampledResponse, SamplingParams, TokenListener
from trainer.engines.vllm.vllm_client import VllmServer
from trainer.engines.vllm.weight_push import WeightPush
from trainer.policy import lora_adapters
from trainer.policy.load import Policy
from trainer.seeds import derive


class ServerSampler:
    """A `Sampler` over `engine.urls`. Adapters are merged into the weights that the servers load.

    Raises:
        ServerError: a server stays unavailable, does not accept weights, or was started with unsuitable settings.
    """

    def __init__(self, config: RunConfig, policy: Policy, eos_id: int, folder: Path | None = None) -> None:
        self.config, self.policy, self.end_ids = config, policy, frozenset([eos_id])
        self.closed = False
        self.servers = [
            VllmServer(url, timeouts.ENGINE_SERVER.seconds, lambda: self.closed) for url in config.engine.urls
        ]
        for server in self.servers:
            server.connect(policy.context)
        self._weights = WeightPush(folder, self.servers)
        self._stale = True
        self.version = 0

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> ServerSession:
        self.wake_up()
        return ServerSession(self, seeds, params, listener)

    def weights_updated(self, version: int = 0) -> None:
        self._stale, self.version = True, version

    def sleep(self) -> None:
        """No-op: the servers have their own devices."""

    def wake_up(self) -> None:
        if not self._stale:
            return
        self._weights.push(lora_adapters.merged(self.policy.model))
        self._stale = False

    def close(self) -> None:
        self.closed = True
        for server in self.servers:
            server.close()
        self._weights.close()


class ServerSession:
    """Dialogues with their KV cache in the servers' prefix caches. See `trainer.engines.sampler.SamplingSession`.

    A row always uses the same server. Every request contains the row's whole history and seed, so that a repeated
    request returns the same response.
    """

    def __init__(
        self, sampler: ServerSampler, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None
    ) -> None:
        self.sampler, self.listener, self.version = sampler, listener, sampler.version
        self.seeds, self.params = list(seeds), params
        self.turn = [0] * len(seeds)
        self.tokens: list[list[int]] = [[] for _ in seeds]  # dialogue so far, by row
        self.active: set[int] = set()
        self.results: SimpleQueue[tuple[int, SampledResponse | Exception]] = SimpleQueue()
        self.pool: ThreadPoolExecutor | None = None

    def reset_row(self, row: int) -> None:
        self.tokens[row] = []

    def append(self, row: int, ids: list[int]) -> None:
        """Request the row's next response at once."""
        if not ids:
            raise ValueError("every prompt needs at least one token")
        if self.pool is None:
            raise RuntimeError("append is allowed only while generate is iterated")
        self.tokens[row] += ids
        self.active.add(row)
        self.pool.submit(self._request, row, self._body(row))
        self.turn[row] += 1

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        rows = MAX_ROWS * len(self.sampler.servers)
        self.pool = ThreadPoolExecutor(max_workers=min(rows, max(len(self.seeds), 1)))
        try:
            for row, ids in prompts.items():
                self.append(row, ids)
            while self.active:
                row, result = self.results.get()
                if isinstance(result, Exception):
                    raise result
                self.active.discard(row)
                self.tokens[row] += result.ids
                if self.listener is not None and row in self.listener.select_rows([row]):
                    self.listener.on_tokens(row, list(result.ids))
                yield row, result
            for server in self.sampler.servers:
                server.check()
        finally:
            self.active.clear()
            self.pool.shutdown(wait=False, cancel_futures=True)
            self.pool = None

    def _body(self, row: int) -> dict[str, Any]:
        params = self.params
        return {
            "prompt": list(self.tokens[row]),
            "max_tokens": params.max_tokens,
            "temperature": params.temperature,
            "top_p": 1.0,
            "seed": derive(self.seeds[row], self.turn[row]),
            "logprobs": 0,
            "return_token_ids": True,
            "ignore_eos": True,
            "stop_token_ids": sorted(self.sampler.end_ids),
            **({"stop": [params.stop.text], "include_stop_str_in_output": True} if params.stop else {}),
            "skip_special_tokens": False,
            "add_special_tokens": False,
        }

    def _request(self, row: int, body: dict[str, Any]) -> None:
        """Put the response or the error into `results`; runs in the pool."""
        server = self.sampler.servers[row % len(self.sampler.servers)]
        try:
            choice = server.complete(body)["choices"][0]
            self.results.put((row, self._response(choice)))
        except Exception as error:  # noqa: BLE001 it is raised again by `generate`
            self.results.put((row, error))

    def _response(self, choice: dict[str, Any]) -> SampledResponse:
        ids, logprobs = list(choice["token_ids"]), list(choice["logprobs"]["token_logprobs"])
        if not all(logprob is not None and math.isfinite(logprob) for logprob in logprobs):
            raise DivergedError(DIVERGED_MESSAGE)
        length = self.params.stop.length(ids) if self.params.stop else None
        if length is not None:  # the server may report tokens sampled after the text
            ids, logprobs = ids[:length], logprobs[:length]
        ended = length is None and ids[-1] in self.sampler.end_ids
        entropies, stopped = [math.nan] * len(ids), length is not None
        return SampledResponse(ids, logprobs, entropies, ended=ended, stopped=stopped, version=self.version)
