"""Sampling with a vLLM engine beside the learner: each row goes on as soon as its prompt is there, nobody waits.

Starting the engine and giving it weights is vllm_engine.py's.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from trainer.config.run import RunConfig
from trainer.engines.base import DIVERGED_MESSAGE, DivergedError, SampledResponse, SamplingParams, TokenListener
from trainer.engines.vllm.vllm_engine import VllmEngine
from trainer.policy.load import Policy
from trainer.seeds import derive

_LISTEN_EVERY = 4
_log = logging.getLogger(__name__)


class VllmSampler:
    """A `Sampler` over an engine of its own; the learner's weights are pushed before the first session after a change.

    Raises:
        ModelError: vLLM is missing, or it cannot take this model or these settings.
    """

    def __init__(self, config: RunConfig, policy: Policy, eos_id: int) -> None:
        self.engine = VllmEngine(config, policy)
        self.eos_id = eos_id
        self.serial = count()
        self._asleep, self._stale = False, True
        if config.engine.sleep_between_rollouts and not self.engine.sleeps:
            _log.info("engine.sleep_between_rollouts: on a CPU the engine keeps its memory between rollouts")

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> VllmSession:
        self.wake_up()
        return VllmSession(self, seeds, params, listener)

    def weights_updated(self) -> None:
        self._stale = True

    def sleep(self) -> None:
        """Adapters need the base's weights back as they were; without adapters they are pushed anew anyway."""
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
    """Dialogues whose keys and values lie in vLLM's prefix cache. See `trainer.engines.base.SamplingSession`."""

    def __init__(
        self, sampler: VllmSampler, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None
    ) -> None:
        self.sampler, self.engine, self.listener = sampler, sampler.engine, listener
        self.seeds, self.params = list(seeds), params
        self.turn = [0] * len(seeds)
        self.held: list[list[int]] = [[] for _ in seeds]
        self.row_of: dict[str, int] = {}  # by request under way
        self.drawn: dict[int, SampledResponse] = {}

    def reset_row(self, row: int) -> None:
        self.held[row] = []

    def append(self, row: int, ids: list[int]) -> None:
        """The row is continued from vLLM's next step on."""
        if not ids:
            raise ValueError("every row needs at least one new token to be continued from")
        vllm = self.engine.vllm
        self.held[row] += ids
        name = f"{next(self.sampler.serial)}"
        self.row_of[name], self.drawn[row] = row, SampledResponse()
        self.engine.core.add_request(
            name,
            vllm.TokensPrompt(prompt_token_ids=list(self.held[row])),
            self._params(row),
            lora_request=self.engine.adapter,
        )
        self.turn[row] += 1

    def _params(self, row: int) -> Any:
        from vllm.sampling_params import RequestOutputKind

        params = self.params
        return self.engine.vllm.SamplingParams(
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k,
            min_p=params.min_p,
            seed=derive(self.seeds[row], self.turn[row]),
            max_tokens=params.max_tokens,
            logprobs=0,
            ignore_eos=True,
            stop_token_ids=[self.sampler.eos_id],
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            stream_interval=_LISTEN_EVERY if self.listener else params.max_tokens,
        )

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        for row, ids in prompts.items():
            self.append(row, ids)
        try:
            while self.row_of:
                for output in self.engine.step():
                    row = self.row_of[output.request_id]
                    self._take(row, output.outputs[0])
                    if output.finished:
                        del self.row_of[output.request_id]
                        yield row, self._finish(row)
                self._tell()
        finally:
            self.engine.abort(list(self.row_of))
            self.row_of.clear()

    def _take(self, row: int, piece: Any) -> None:
        sampled = self.drawn[row]
        for token, known in zip(piece.token_ids, piece.logprobs, strict=True):
            logprob = known[token].logprob
            if not math.isfinite(logprob):
                raise DivergedError(DIVERGED_MESSAGE)
            sampled.ids.append(token)
            sampled.logprobs.append(logprob)
            sampled.entropies.append(math.nan)  # vLLM does not tell

    def _finish(self, row: int) -> SampledResponse:
        sampled = self.drawn.pop(row)
        sampled.ended = sampled.ids[-1] == self.sampler.eos_id
        self.held[row] += sampled.ids
        return sampled

    def _tell(self) -> None:
        """Show what is being written to whoever watches."""
        if self.listener is None:
            return
        under_way = [row for row in self.row_of.values() if self.drawn[row].ids]
        for row in self.listener.select_rows(under_way):
            self.listener.on_tokens(row, list(self.drawn[row].ids))
