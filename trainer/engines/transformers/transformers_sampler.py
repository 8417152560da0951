"""Sampling with a transformers model in this process: ragged rows, a KV cache kept across turns, no finished rows.

Rows still being continued lie in front in the store of rows.py, so that a decoding step touches nothing but living rows
and no padding ever enters a row's context. How a token is drawn is drawing.py's business.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.engines.base import DivergedError, SampledResponse, SamplingParams, TokenListener
from trainer.engines.transformers.kv_cache import KVCache
from trainer.engines.transformers.sampling import sample_tokens
from trainer.engines.transformers.threads import ThreadedSession, shares, thread_count
from trainer.policy.load import output_head
from trainer.policy.packing.shared_prefix import find_shared_prefixes

_PREFILL_TOKENS = 8192
_LISTEN_EVERY = 4
_WORTH_A_PASS = 128
"""How many tokens a further forward pass must save: its own cost on a small model, in tokens."""


class TransformersSampler:
    """A `Sampler` over a causal LM; reads the model's weights as they are at each call.

    Args:
        model: what plays.
        eos_id: the token that ends a response.
        pad_id: what gaps are filled with; it is never read.
        lanes: threads that play rows of their own (lanes.py); 0: none; None: as many as suit model, rows and cores.
    """

    def __init__(
        self, model: PreTrainedModel, eos_id: int, pad_id: int | None = None, lanes: int | None = None
    ) -> None:
        self.model = model
        self.lanes = lanes
        self.eos_id = eos_id
        self.pad_id = eos_id if pad_id is None else pad_id
        self.head = output_head(model)
        self.layers = model.config.get_text_config().num_hidden_layers

    def session(
        self,
        seeds: Sequence[int],
        params: SamplingParams,
        listener: TokenListener | None = None,
        turns: Sequence[int] | None = None,
    ) -> TransformersSession | ThreadedSession:
        """See `trainer.engines.base.Sampler`. `turns`: each row's responses so far; none if not given."""
        turns = turns or [0] * len(seeds)
        lanes = thread_count(len(seeds), self.model) if self.lanes is None else min(self.lanes, len(seeds))
        if not lanes:
            return self.lane(seeds, params, listener, turns)

        def open_lane(rows: range, ear: TokenListener | None) -> TransformersSession:
            share = slice(rows.start, rows.stop)
            return self.lane(seeds[share], params, ear, turns[share])

        return ThreadedSession(open_lane, shares(len(seeds), lanes), listener)

    def lane(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None, turns: Sequence[int]
    ) -> TransformersSession:
        """A session that is played in one thread."""
        return TransformersSession(self, seeds, params, listener, turns)

    def weights_updated(self) -> None:
        """Nothing to do: the weights are the learner's own."""

    def sleep(self) -> None:
        """Nothing to free: what a rollout holds goes with its session."""

    def wake_up(self) -> None:
        """Nothing to take back."""

    def close(self) -> None:
        """Nothing to end."""


class TransformersSession:
    """Dialogues whose keys and values stay in this process. See `trainer.engines.base.SamplingSession`."""

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
        self.store = KVCache(len(seeds), sampler.layers)
        self.pending: list[list[int]] = [[] for _ in seeds]  # by row: sampled last, not yet in the cache
        self.held: list[list[int]] = [[] for _ in seeds]  # by row: everything in the cache, in order
        self.restarted: set[int] = set()
        self.added: dict[int, list[int]] = {}
        self.device = sampler.model.device

    def reset_row(self, row: int) -> None:
        self.restarted.add(row)

    def append(self, row: int, ids: list[int]) -> None:
        """Its turn comes when the present round is over, in the order of the rows' numbers."""
        self.added[row] = ids

    @torch.inference_mode()
    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        waiting = dict(prompts)
        while waiting:
            yield from self._round(waiting)
            waiting, self.added = dict(sorted(self.added.items())), {}

    def _round(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """One response for each of the rows."""
        rows = list(prompts)
        store = self.store
        for slot, row in enumerate(rows):
            store.swap(slot, store.slot_of[row])
        fresh = [self._fresh(row, prompts[row]) for row in rows]
        if any(not ids for ids in fresh):
            raise ValueError("every row needs at least one new token to be continued from")
        longest = max(store.length[slot] + len(ids) for slot, ids in enumerate(fresh))
        store.reserve(longest + self.params.max_tokens)
        for row, ids in zip(rows, fresh, strict=True):
            self.held[row] += ids
        logits = self._prefill(fresh)
        uniforms = torch.from_numpy(np.stack([self._draws(row) for row in rows])).to(self.device)
        for row in rows:
            self.turn[row] += 1
        yield from self._decode(rows, logits, uniforms)

    def _fresh(self, row: int, prompt: list[int]) -> list[int]:
        """What the row has to read now. The cache of what a restarted row's new prompt begins with is kept."""
        if row not in self.restarted:
            return self.pending[row] + prompt
        self.restarted.discard(row)
        held, kept = self.held[row], 0
        while kept < min(len(held), len(prompt) - 1) and held[kept] == prompt[kept]:
            kept += 1
        self.store.length[self.store.slot_of[row]] = kept
        del held[kept:]
        return prompt[kept:]

    def _draws(self, row: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Uniform numbers of one response, from the row's seed and turn alone."""
        generator = np.random.Generator(np.random.Philox(key=[self.seeds[row], self.turn[row]]))
        return generator.random(self.params.max_tokens, dtype=np.float32)

    def _prefill(self, fresh: list[list[int]]) -> Tensor:
        """Read new tokens into slots 0…n−1; what empty rows begin with in common is read once.

        Returns: (n, vocabulary) logits after the last new token of each row.
        """
        store = self.store
        empty = [slot for slot in range(len(fresh)) if store.length[slot] == 0]
        for shared in find_shared_prefixes([fresh[slot] for slot in empty], _WORTH_A_PASS):
            slots = [empty[beginning.members[0]] for beginning in shared]
            self._read(slots, [fresh[slot][part.start : part.stop] for slot, part in zip(slots, shared, strict=True)])
            for slot, part in zip(slots, shared, strict=True):
                store.copy(slot, [empty[member] for member in part.members[1:]])
        for slot in empty:
            fresh[slot] = fresh[slot][store.length[slot] :]
        return self._logits(self._read(range(len(fresh)), fresh))

    def _read(self, slots: Sequence[int], fresh: Sequence[list[int]]) -> Tensor:
        """Forward passes in batches of bounded size. Gives the hidden state after the last token of each row."""
        parts, start = [], 0
        while start < len(fresh):
            stop, width = start, 0
            while stop < len(fresh):
                wider = max(width, len(fresh[stop]))
                if stop > start and wider * (stop - start + 1) > _PREFILL_TOKENS:
                    break
                width, stop = wider, stop + 1
            parts.append(self._read_batch(slots[start:stop], fresh[start:stop]))
            start = stop
        return torch.cat(parts)

    def _read_batch(self, slots: Sequence[int], fresh: Sequence[list[int]]) -> Tensor:
        store, sizes = self.store, [len(ids) for ids in fresh]
        wide = max(sizes)
        ids = torch.tensor([row + [self.sampler.pad_id] * (wide - len(row)) for row in fresh], device=self.device)
        starts = torch.tensor([store.length[slot] for slot in slots])
        width = int(starts.max()) + wide
        store.reserve(width)
        hidden = self._forward(slots, ids, (starts[:, None] + torch.arange(wide)).to(self.device), width)
        for slot, row in zip(slots, fresh, strict=True):
            store.length[slot] += len(row)
        return hidden[torch.arange(len(sizes)), torch.tensor(sizes) - 1]

    def _forward(self, slots: Sequence[int], ids: Tensor, positions: Tensor, width: int) -> Tensor:
        self.store.aim(slots, positions, width)
        # Added to the scores as it is: a mask of booleans would be turned into this one in every layer.
        unread = torch.arange(width, device=self.device) > positions[:, None, :, None]
        mask = torch.zeros(unread.shape, dtype=self.sampler.model.dtype, device=self.device)
        output = self.sampler.model.base_model(
            input_ids=ids,
            attention_mask=mask.masked_fill_(unread, -torch.inf),
            position_ids=positions,
            past_key_values=self.store.cache,
            use_cache=True,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.sampler.head(hidden).float()  # type: ignore[no-any-return]

    def _decode(self, rows: list[int], logits: Tensor, uniforms: Tensor) -> Iterator[tuple[int, SampledResponse]]:
        store, eos, limit = self.store, self.sampler.eos_id, self.params.max_tokens
        alive = len(rows)  # slots 0…alive−1 are still being continued
        drawn = {row: SampledResponse() for row in rows}
        order = torch.arange(alive)  # slot → its line in `uniforms`
        for step in range(limit):
            tokens, logprobs, entropies = self._draw(logits, uniforms[order, step])
            listed = tokens.tolist()
            for slot, (token, logprob, entropy) in enumerate(
                zip(listed, logprobs.tolist(), entropies.tolist(), strict=True)
            ):
                sampled = drawn[store.row_in[slot]]
                if not math.isfinite(logprob):
                    raise DivergedError(
                        "the policy's weights have diverged: its logits are no longer finite numbers. Earlier "
                        "checkpoints are kept; go on from one of them with a smaller optimizer.policy_lr"
                    )
                sampled.ids.append(token)
                sampled.logprobs.append(logprob)
                sampled.entropies.append(entropy)
            if self.listener is not None and step % _LISTEN_EVERY == 0:
                for row in self.listener.select_rows(store.row_in[:alive]):
                    self.listener.on_tokens(row, list(drawn[row].ids))
            keep = list(range(alive))
            finished = []
            for slot in reversed(range(alive)):
                if listed[slot] == eos or step == limit - 1:
                    row = store.row_in[slot]
                    self.pending[row] = [listed[slot]]
                    self.held[row] += drawn[row].ids[:-1]
                    drawn[row].ended = listed[slot] == eos
                    finished.append(row)
                    alive -= 1
                    store.swap(slot, alive)
                    keep[slot] = keep[alive]
            del keep[alive:]
            for row in reversed(finished):
                yield row, drawn[row]
            if not alive or self.halted:
                return
            if finished:
                picked = torch.tensor(keep)
                tokens, order = tokens[picked], order[picked]
            positions = torch.tensor(store.length[:alive], device=self.device)[:, None]
            hidden = self._forward(range(alive), tokens[:, None], positions, max(store.length[:alive]) + 1)
            for slot in range(alive):
                store.length[slot] += 1
            logits = self._logits(hidden[:, -1])

    def _draw(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return sample_tokens(logits, uniform, self.params)
