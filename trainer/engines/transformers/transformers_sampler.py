"""Sampling with a transformers model in this process: ragged rows and a KV cache that is kept across turns.

Active rows occupy the first slots of the KV cache, so that a decoding step computes only active rows and no padding
ever enters a row's context.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.engines.sampler import DIVERGED_MESSAGE, DivergedError, SampledResponse, SamplingParams, TokenListener
from trainer.engines.transformers.decode_buffers import BufferPool
from trainer.engines.transformers.decode_steps import DecodeMode, default_mode
from trainer.engines.transformers.sampling import sample_tokens
from trainer.engines.transformers.threads import ThreadedSession, partition_rows, thread_count
from trainer.policy.head.output_head import output_head
from trainer.policy.packing.attention import group_decoding
from trainer.policy.packing.shared_prefix import find_shared_prefixes

_MAX_PREFILL_TOKENS = 8192
_LISTENER_INTERVAL = 4
"""Decoding steps between two calls of the listener."""
_MIN_SHARED_TOKENS = 128
"""Tokens that an additional forward pass over a shared prefix must save: its own cost on a small model, in tokens."""


class TransformersSampler:
    """A `Sampler` over a causal LM; uses the model's current weights at each call.

    Args:
        model: the policy.
        eos_id: the token that ends a response.
        pad_id: fills gaps; never attended to.
        threads: number of threads with one session each (`ThreadedSession`); 0: none; None: chosen by model size, rows
            and cores.
        decoding: mode of decoding steps; None: the fastest one on the model's device.
    Attributes:
        version: version of the model's weights, if the owner counts versions; responses carry it.
        between_rounds: called before each round of responses of a session, when no response is being sampled: only then
            may the owner change the weights while a session is open.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        eos_id: int,
        pad_id: int | None = None,
        threads: int | None = None,
        decoding: DecodeMode | None = None,
    ) -> None:
        self.model = model
        self.threads = threads
        self.decoding: DecodeMode = decoding or default_mode(model.device)
        group_decoding(model)
        self.end_ids = frozenset([eos_id])
        self.pad_id = eos_id if pad_id is None else pad_id
        self.version = 0
        self.between_rounds: Callable[[], None] = lambda: None
        self.head = output_head(model)
        self.buffers = BufferPool(model, model.config.get_text_config().num_hidden_layers)

    def session(
        self,
        seeds: Sequence[int],
        params: SamplingParams,
        listener: TokenListener | None = None,
        turns: Sequence[int] | None = None,
    ) -> TransformersSession | ThreadedSession:
        """See `trainer.engines.sampler.Sampler`. `turns` is the number of earlier responses by row; 0 if omitted."""
        turns = turns or [0] * len(seeds)
        threads = thread_count(len(seeds), self.model) if self.threads is None else min(self.threads, len(seeds))
        if not threads:
            return self.thread_session(seeds, params, listener, turns)

        def open_session(rows: range, thread_listener: TokenListener | None) -> TransformersSession:
            part = slice(rows.start, rows.stop)
            return self.thread_session(seeds[part], params, thread_listener, turns[part])

        return ThreadedSession(open_session, partition_rows(len(seeds), threads), listener)

    def thread_session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None, turns: Sequence[int]
    ) -> TransformersSession:
        """Open a session that runs in one thread."""
        return TransformersSession(self, seeds, params, listener, turns)

    def weights_updated(self, version: int = 0) -> None:
        """Note the version. The sampler reads the weights from the model, which the learner shares or loads."""
        self.version = version

    def sleep(self) -> None:
        """Free the last session's KV cache if it is large; smaller ones belong to the next session."""
        self.buffers.trim()

    def wake_up(self) -> None:
        """No-op: it never sleeps."""

    def close(self) -> None:
        """No-op: it started nothing."""


class TransformersSession:
    """Dialogues with their KV cache in this process. See `trainer.engines.sampler.SamplingSession`."""

    halted = False

    def __init__(
        self,
        sampler: TransformersSampler,
        seeds: Sequence[int],
        params: SamplingParams,
        listener: TokenListener | None,
        turns: Sequence[int],
    ) -> None:
        self.sampler, self.params, self.listener = sampler, params, listener
        self.seeds, self.turn = list(seeds), list(turns)
        buffers = sampler.buffers.lend(self, len(seeds), sampler.decoding)
        self.cache, self.forward, self.steps = buffers.cache, buffers.forward, buffers.steps
        self.pending: list[list[int]] = [[] for _ in seeds]  # last sampled token by row, not yet in the cache
        self.cached: list[list[int]] = [[] for _ in seeds]  # ids in the cache by row, in order
        self.reset_rows: set[int] = set()
        self.appended: dict[int, list[int]] = {}
        self.device = sampler.model.device

    def reset_row(self, row: int) -> None:
        self.reset_rows.add(row)

    def append(self, row: int, ids: list[int]) -> None:
        """Queue the prompt for the next round, which follows the order of row numbers."""
        self.appended[row] = ids

    @torch.inference_mode()
    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        waiting = dict(prompts)
        while waiting:
            yield from self._round(waiting)
            waiting, self.appended = dict(sorted(self.appended.items())), {}

    def _round(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """Sample one response for each row."""
        self.sampler.between_rounds()
        rows = list(prompts)
        cache = self.cache
        for slot, row in enumerate(rows):
            cache.swap(slot, cache.slot_of[row])
        uncached = [self._uncached(row, prompts[row]) for row in rows]
        if any(not ids for ids in uncached):
            raise ValueError("every prompt needs at least one token")
        longest = max(cache.length[slot] + len(ids) for slot, ids in enumerate(uncached))
        cache.reserve(longest + self.params.max_tokens)
        for row, ids in zip(rows, uncached, strict=True):
            self.cached[row] += ids
        logits = self._prefill(uncached)
        uniforms = torch.from_numpy(np.stack([self._uniforms(row) for row in rows])).to(self.device)
        for row in rows:
            self.turn[row] += 1
        yield from self._decode(rows, logits, uniforms)

    def _uncached(self, row: int, prompt: list[int]) -> list[int]:
        """Return the tokens to prefill. A reset row keeps the cache of the prefix shared with its new prompt."""
        if row not in self.reset_rows:
            return self.pending[row] + prompt
        self.reset_rows.discard(row)
        cached, shared = self.cached[row], 0
        while shared < min(len(cached), len(prompt) - 1) and cached[shared] == prompt[shared]:
            shared += 1
        self.cache.length[self.cache.slot_of[row]] = shared
        del cached[shared:]
        return prompt[shared:]

    def _uniforms(self, row: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the uniform numbers of one response; they depend only on the row's seed and turn."""
        generator = np.random.Generator(np.random.Philox(key=[self.seeds[row], self.turn[row]]))
        return generator.random(self.params.max_tokens, dtype=np.float32)

    def _prefill(self, uncached: list[list[int]]) -> Tensor:
        """Prefill slots 0…n−1; shared prefixes of empty rows are computed once.

        Returns: (n, vocabulary) logits after the last token of each row.
        """
        cache = self.cache
        empty = [slot for slot in range(len(uncached)) if cache.length[slot] == 0]
        for prefixes in find_shared_prefixes([uncached[slot] for slot in empty], _MIN_SHARED_TOKENS):
            slots = [empty[prefix.members[0]] for prefix in prefixes]
            self._forward_all(
                slots, [uncached[slot][part.start : part.stop] for slot, part in zip(slots, prefixes, strict=True)]
            )
            for slot, part in zip(slots, prefixes, strict=True):
                cache.copy(slot, [empty[member] for member in part.members[1:]])
        for slot in empty:
            uncached[slot] = uncached[slot][cache.length[slot] :]
        return self._logits(self._forward_all(range(len(uncached)), uncached))

    def _forward_all(self, slots: Sequence[int], tokens: Sequence[list[int]]) -> Tensor:
        """Run forward passes in batches of bounded size; returns the hidden state after the last token of each row."""
        parts, start = [], 0
        while start < len(tokens):
            stop, width = start, 0
            while stop < len(tokens):
                wider = max(width, len(tokens[stop]))
                if stop > start and wider * (stop - start + 1) > _MAX_PREFILL_TOKENS:
                    break
                width, stop = wider, stop + 1
            parts.append(self.read(slots[start:stop], tokens[start:stop]))
            start = stop
        return torch.cat(parts)

    def read(self, slots: Sequence[int], tokens: Sequence[list[int]]) -> Tensor:
        """Append tokens to the cached rows of these slots. Returns the hidden state after each row's last token."""
        cache, sizes = self.cache, [len(ids) for ids in tokens]
        longest = max(sizes)
        ids = torch.tensor([row + [self.sampler.pad_id] * (longest - len(row)) for row in tokens], device=self.device)
        starts = torch.tensor([cache.length[slot] for slot in slots])
        width = int(starts.max()) + longest
        cache.reserve(width)
        hidden = self.forward(slots, ids, (starts[:, None] + torch.arange(longest)).to(self.device), width)
        for slot, row in zip(slots, tokens, strict=True):
            cache.length[slot] += len(row)
        return hidden[torch.arange(len(sizes)), torch.tensor(sizes) - 1]

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.sampler.head(hidden).float()  # type: ignore[no-any-return]

    def _decode(self, rows: list[int], logits: Tensor, uniforms: Tensor) -> Iterator[tuple[int, SampledResponse]]:
        cache, ends, limit, stop = self.cache, self.sampler.end_ids, self.params.max_tokens, self.params.stop
        active = len(rows)  # slots 0…active−1 are being sampled
        responses = {row: SampledResponse(version=self.sampler.version) for row in rows}
        order = torch.arange(active, device=self.device)  # row of `uniforms`, by slot
        for step in range(limit):
            tokens, logprobs, entropies = self._sample_step(logits, uniforms[order, step])
            ids, *numbers = _on_host(tokens, logprobs, entropies)
            _append([responses[row] for row in cache.row_in[:active]], ids, *numbers)
            if self.listener is not None and step % _LISTENER_INTERVAL == 0:
                for row in self.listener.select_rows(cache.row_in[:active]):
                    self.listener.on_tokens(row, list(responses[row].ids))
            sources = list(range(active))  # slot before finished rows were moved to the end, by slot
            finished = []
            for slot in reversed(range(active)):
                row = cache.row_in[slot]
                ended = ids[slot] in ends
                stopped = stop is not None and not ended and stop.length(responses[row].ids, step) is not None
                if ended or stopped or step == limit - 1:
                    self.pending[row] = [ids[slot]]
                    self.cached[row] += responses[row].ids[:-1]
                    responses[row].ended, responses[row].stopped = ended, stopped
                    finished.append(row)
                    active -= 1
                    cache.swap(slot, active)
                    sources[slot] = sources[active]
            del sources[active:]
            for row in reversed(finished):
                yield row, responses[row]
            if not active or self.halted:
                return
            if finished:
                selected = torch.tensor(sources, device=self.device)
                tokens, order = tokens[selected], order[selected]
            hidden = self._next_hidden(tokens)
            for slot in range(active):
                cache.length[slot] += 1
            logits = self._logits(hidden)

    def _next_hidden(self, tokens: Tensor) -> Tensor:
        """Append (n,) tokens to the slots 0…n−1; returns the (n, H) hidden states after them."""
        if self.steps is not None:
            hidden = self.steps.run(tokens)
            if self.steps.failure:
                self.sampler.decoding = "static"
            return hidden
        lengths = self.cache.length[: len(tokens)]
        positions = torch.tensor(lengths, device=self.device)[:, None]
        return self.forward(range(len(tokens)), tokens[:, None], positions, max(lengths) + 1)[:, -1]

    def _sample_step(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return sample_tokens(logits, uniform, self.params)


def _append(
    responses: Sequence[SampledResponse], ids: list[int], logprobs: list[float], entropies: list[float]
) -> None:
    """Append a token to each response. Raises DivergedError if a log-probability is not finite."""
    for response, token, logprob, entropy in zip(responses, ids, logprobs, entropies, strict=True):
        if not math.isfinite(logprob):
            raise DivergedError(DIVERGED_MESSAGE)
        response.ids.append(token)
        response.logprobs.append(logprob)
        response.entropies.append(entropy)


def _on_host(tokens: Tensor, logprobs: Tensor, entropies: Tensor) -> list[list[Any]]:
    """Convert to lists, from a GPU in one transfer, as each transfer waits for it; float64 represents ids exactly."""
    if not tokens.is_cuda:
        return [tokens.tolist(), logprobs.tolist(), entropies.tolist()]
    ids, *numbers = torch.stack([part.double() for part in (tokens, logprobs, entropies)]).tolist()
    return [[int(token) for token in ids], *numbers]
