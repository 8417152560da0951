"""Sampling with a vLLM engine in this process.

Continuous batching: each row is resubmitted as soon as its next prompt is ready.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from trainer.config.run import RunConfig
from trainer.engines.sampler import DIVERGED_MESSAGE, DivergedError, SampledResponse, SamplingParams, TokenListener
from trainer.engines.vllm.vllm_engine import VllmEngine
from trainer.policy.load import Policy
from trainer.seeds import derive

_REPORT_INTERVAL = 4  # tokens between two reports of a response, to the listener and to the check for the stop text


class VllmSampler:
    """A `Sampler` over its own engine; changed weights are pushed before the next session.

    Raises:
        ModelError: vLLM is not installed, or does not support this model or these settings.
    """

    def __init__(self, config: RunConfig, policy: Policy, eos_id: int) -> None:
        self.engine = VllmEngine(config, policy)
        self.end_ids = frozenset([eos_id])
        self.serial = count()
        self.version = 0  # version of the weights, if the sampler's owner counts versions
        self._asleep, self._stale = False, True

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> VllmSession:
        self.wake_up()
        return VllmSession(self, seeds, params, listener)

    def weights_updated(self, version: int = 0) -> None:
        self._stale, self.version = True, version

    def sleep(self) -> None:
        """Release memory. Level 1 keeps the base weights for adapters; without them all weights are pushed later."""
        if self.engine.sleeps and not self._asleep:
            self.engine.core.sleep(level=1 if self.engine.adapted else 2)
            self._asleep = True
            self._stale = self._stale or not self.engine.adapted

    def wake_up(self) -> None:
        core = self.engine.core
        if self._asleep:
            core.wake_up(tags=["weights"])
        if self._stale:
            self.engine.push()
        if self._asleep:
            core.wake_up(tags=["kv_cache"])
        self._asleep = self._stale = False

    def close(self) -> None:
        self.engine.close()


class VllmSession:
    """Dialogues with their KV cache in vLLM's prefix cache. See `trainer.engines.sampler.SamplingSession`."""

    def __init__(
        self, sampler: VllmSampler, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None
    ) -> None:
        self.sampler, self.engine, self.listener = sampler, sampler.engine, listener
        self.seeds, self.params = list(seeds), params
        self.turn = [0] * len(seeds)
        self.tokens: list[list[int]] = [[] for _ in seeds]  # dialogue so far, by row
        self.row_of: dict[str, int] = {}  # row by active request
        self.responses: dict[int, SampledResponse] = {}

    def reset_row(self, row: int) -> None:
        self.tokens[row] = []

    def append(self, row: int, ids: list[int]) -> None:
        """Submit the row's next prompt; vLLM's next step includes it."""
        if not ids:
            raise ValueError("every prompt needs at least one token")
        vllm = self.engine.vllm
        self.tokens[row] += ids
        name = f"{next(self.sampler.serial)}"
        self.row_of[name], self.responses[row] = row, SampledResponse(version=self.sampler.version)
        self.engine.core.add_request(
            name,
            vllm.TokensPrompt(prompt_token_ids=list(self.tokens[row])),
            self._params(row),
            lora_request=self.engine.adapter,
        )
        self.turn[row] += 1

    def _params(self, row: int) -> Any:
        from vllm.sampling_params import RequestOutputKind

        params = self.params
        return self.engine.vllm.SamplingParams(
            temperature=params.temperature,
            seed=derive(self.seeds[row], self.turn[row]),
            max_tokens=params.max_tokens,
            logprobs=0,
            ignore_eos=True,
            stop_token_ids=sorted(self.sampler.end_ids),
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            stream_interval=_REPORT_INTERVAL if self.listener or params.stop else params.max_tokens,
        )

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        for row, ids in prompts.items():
            self.append(row, ids)
        try:
            while self.row_of:
                for output in self.engine.step():
                    if output.request_id not in self.row_of:  # aborted within this step
                        continue
                    row = self.row_of[output.request_id]
                    self._add(row, output.outputs[0])
                    stopped = self.responses[row].stopped
                    if output.finished or stopped:
                        del self.row_of[output.request_id]
                        if stopped and not output.finished:
                            self.engine.abort([output.request_id])
                        yield row, self._finish(row)
                self._notify_listener()
        finally:
            self.engine.abort(list(self.row_of))
            self.row_of.clear()

    def _add(self, row: int, delta: Any) -> None:
        """Append tokens sampled since the last report, up to the one after which the response has to stop.

        The engine has no tokenizer and samples on until it is aborted: later tokens are dropped.
        """
        response, stop = self.responses[row], self.params.stop
        for token, logprobs in zip(delta.token_ids, delta.logprobs, strict=True):
            logprob = logprobs[token].logprob
            if not math.isfinite(logprob):
                raise DivergedError(DIVERGED_MESSAGE)
            response.ids.append(token)
            response.logprobs.append(logprob)
            response.entropies.append(math.nan)  # not reported by vLLM
            if stop is not None and stop.length(response.ids, len(response.ids) - 1) is not None:
                response.stopped = True
                return

    def _finish(self, row: int) -> SampledResponse:
        response = self.responses.pop(row)
        response.ended = response.ids[-1] in self.sampler.end_ids and not response.stopped
        self.tokens[row] += response.ids
        return response

    def _notify_listener(self) -> None:
        if self.listener is None:
            return
        started = [row for row in self.row_of.values() if self.responses[row].ids]
        for row in self.listener.select_rows(started):
            self.listener.on_tokens(row, list(self.responses[row].ids))
