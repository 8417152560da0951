"""Sampling with a transformers model in this process: ragged rows, a KV cache kept across turns, no finished rows.

Each row's keys and values lie left-aligned in one preallocated buffer, rows still being continued in front, so that a
decoding step touches nothing but living rows and no padding ever enters a row's context.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from trainer.policies import output_head
from trainer.samplers.base import DivergedError, Listener, Sampled, SamplingParams

_PREFILL_TOKENS = 8192
_LISTEN_EVERY = 4


class _Layer(CacheLayerMixin):
    """Keys and values of one layer, (rows, heads, capacity, dim); written at each row's own position."""

    def __init__(self, store: RowStore) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.store = store

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = self._empty(key_states)
        self.values = self._empty(value_states)
        self.is_initialized = True

    def _empty(self, like: Tensor) -> Tensor:
        heads, dim = like.shape[1], like.shape[3]
        return like.new_zeros(self.store.rows, heads, self.store.capacity, dim)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        if self.keys.shape[2] < self.store.capacity:
            missing = self.store.capacity - self.keys.shape[2]
            self.keys = torch.nn.functional.pad(self.keys, (0, 0, 0, missing))
            self.values = torch.nn.functional.pad(self.values, (0, 0, 0, missing))
        store = self.store
        slots = torch.arange(store.first, store.first + key_states.shape[0], device=key_states.device)
        if key_states.shape[2] == 1:
            self.keys[slots, :, store.positions[:, 0]] = key_states[:, :, 0]
            self.values[slots, :, store.positions[:, 0]] = value_states[:, :, 0]
        else:
            self.keys[slots[:, None], :, store.positions] = key_states.transpose(1, 2)
            self.values[slots[:, None], :, store.positions] = value_states.transpose(1, 2)
        last = store.first + key_states.shape[0]
        return self.keys[store.first : last, :, : store.width], self.values[store.first : last, :, : store.width]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.store.width, 0

    def get_seq_length(self) -> int:
        return self.store.width

    def get_max_length(self) -> int:
        return self.store.capacity


class RowStore:
    """Which slot of the buffers belongs to which row, how long rows are, and where the present forward pass writes."""

    def __init__(self, rows: int, layers: int) -> None:
        self.rows, self.capacity = rows, 0
        self.slot_of = list(range(rows))
        self.row_in = list(range(rows))
        self.length = [0] * rows  # by slot
        self.layers = [_Layer(self) for _ in range(layers)]
        self.cache = Cache(layers=list(self.layers))
        self.first, self.width = 0, 0
        self.positions = torch.zeros(0, 0, dtype=torch.long)

    def aim(self, first: int, positions: Tensor, width: int) -> None:
        """The next forward pass is for the slots from `first`, writes at `positions` (n, q), reads `width` columns."""
        self.first, self.positions, self.width = first, positions, width

    def reserve(self, columns: int) -> None:
        if columns > self.capacity:
            self.capacity = max(columns, self.capacity + self.capacity // 2)

    def swap(self, a: int, b: int) -> None:
        """Exchange the contents of two slots."""
        if a == b:
            return
        used = max(self.length[a], self.length[b])
        for layer in self.layers:
            for buffer in (layer.keys, layer.values):
                if buffer is not None:
                    kept = buffer[a, :, :used].clone()
                    buffer[a, :, :used] = buffer[b, :, :used]
                    buffer[b, :, :used] = kept
        self.length[a], self.length[b] = self.length[b], self.length[a]
        self.row_in[a], self.row_in[b] = self.row_in[b], self.row_in[a]
        self.slot_of[self.row_in[a]], self.slot_of[self.row_in[b]] = a, b

    def copy(self, source: int, targets: Sequence[int]) -> None:
        """Give the target slots the contents of the source slot."""
        used, index = self.length[source], torch.tensor(targets)
        for layer in self.layers:
            for buffer in (layer.keys, layer.values):
                assert buffer is not None
                buffer[index, :, :used] = buffer[source, :, :used]
        for slot in targets:
            self.length[slot] = used


class TransformersSampler:
    """A `Sampler` over a causal LM; reads the model's weights as they are at each call."""

    def __init__(self, model: PreTrainedModel, eos_id: int, pad_id: int | None = None) -> None:
        self.model = model
        self.eos_id = eos_id
        self.pad_id = eos_id if pad_id is None else pad_id
        self.head = output_head(model)
        self.layers = model.config.get_text_config().num_hidden_layers

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: Listener | None = None
    ) -> TransformersSession:
        return TransformersSession(self, seeds, params, listener)

    def refresh(self) -> None:
        """Nothing to do: the weights are the learner's own."""

    def rest(self) -> None:
        """Nothing to free: what a rollout holds goes with its session."""

    def wake(self) -> None:
        """Nothing to take back."""

    def close(self) -> None:
        """Nothing to end."""


class TransformersSession:
    """Dialogues whose keys and values stay in this process. See `trainer.samplers.base.Session`."""

    def __init__(
        self, sampler: TransformersSampler, seeds: Sequence[int], params: SamplingParams, listener: Listener | None
    ) -> None:
        self.sampler, self.params, self.listener = sampler, params, listener
        self.seeds = list(seeds)
        self.turn = [0] * len(seeds)
        self.store = RowStore(len(seeds), sampler.layers)
        self.pending: list[list[int]] = [[] for _ in seeds]  # by row: sampled last, not yet in the cache
        self.held: list[list[int]] = [[] for _ in seeds]  # by row: everything in the cache, in order
        self.restarted: set[int] = set()
        self.added: dict[int, list[int]] = {}
        self.device = sampler.model.device

    def restart(self, row: int) -> None:
        self.restarted.add(row)

    def add(self, row: int, ids: list[int]) -> None:
        """Its turn comes when the present round is over, in the order of the rows' numbers."""
        self.added[row] = ids

    @torch.inference_mode()
    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, Sampled]]:
        waiting = dict(prompts)
        while waiting:
            yield from self._round(waiting)
            waiting, self.added = dict(sorted(self.added.items())), {}

    def _round(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, Sampled]]:
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
        logits = self._prefill(fresh)
        for row, ids in zip(rows, fresh, strict=True):
            self.held[row] += ids
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
        """Read new tokens into slots 0…n−1; a prompt that several empty rows share is read once.

        Returns: (n, vocabulary) logits after the last new token of each row.
        """
        store = self.store
        leader: dict[tuple[int, ...], int] = {}
        follows: dict[int, list[int]] = {}
        order = []
        for slot, ids in enumerate(fresh):
            key = tuple(ids)
            if store.length[slot] == 0 and key in leader:
                follows.setdefault(leader[key], []).append(slot)
                continue
            if store.length[slot] == 0:
                leader[key] = slot
            order.append(slot)
        if follows and len(order) * 2 > len(fresh):
            follows, order = {}, list(range(len(fresh)))
        logits = self._read_scattered(order, fresh) if follows else self._read(0, fresh)
        if not follows:
            return logits
        full = logits.new_empty(len(fresh), logits.shape[1])
        full[torch.tensor(order)] = logits
        for source, targets in follows.items():
            store.copy(source, targets)
            full[torch.tensor(targets)] = full[source].clone()
        return full

    def _read_scattered(self, slots: list[int], fresh: list[list[int]]) -> Tensor:
        return torch.cat([self._read(slot, [fresh[slot]]) for slot in slots])

    def _read(self, first: int, fresh: list[list[int]]) -> Tensor:
        """Forward passes over neighbouring slots from `first`, in batches of bounded size."""
        parts, start = [], 0
        while start < len(fresh):
            stop, width = start, 0
            while stop < len(fresh):
                wider = max(width, len(fresh[stop]))
                if stop > start and wider * (stop - start + 1) > _PREFILL_TOKENS:
                    break
                width, stop = wider, stop + 1
            parts.append(self._read_batch(first + start, fresh[start:stop]))
            start = stop
        return torch.cat(parts)

    def _read_batch(self, first: int, fresh: list[list[int]]) -> Tensor:
        store, sizes = self.store, [len(ids) for ids in fresh]
        wide = max(sizes)
        ids = torch.full((len(fresh), wide), self.sampler.pad_id, dtype=torch.long)
        for index, row in enumerate(fresh):
            ids[index, : len(row)] = torch.tensor(row)
        starts = torch.tensor([store.length[first + index] for index in range(len(fresh))])
        positions = (starts[:, None] + torch.arange(wide)).to(self.device)
        store.reserve(int(positions.max()) + 1)
        hidden = self._forward(first, ids.to(self.device), positions)
        for index, size in enumerate(sizes):
            store.length[first + index] += size
        last = hidden[torch.arange(len(fresh)), torch.tensor(sizes) - 1]
        return self.sampler.head(last).float()  # type: ignore[no-any-return]

    def _forward(self, first: int, ids: Tensor, positions: Tensor) -> Tensor:
        width = int(positions.max()) + 1
        self.store.aim(first, positions, width)
        mask = torch.arange(width, device=self.device) <= positions[:, None, :, None]
        output = self.sampler.model.base_model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=self.store.cache,
            use_cache=True,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def _decode(self, rows: list[int], logits: Tensor, uniforms: Tensor) -> Iterator[tuple[int, Sampled]]:
        store, eos, limit = self.store, self.sampler.eos_id, self.params.max_tokens
        alive = len(rows)  # slots 0…alive−1 are still being continued
        drawn = {row: Sampled() for row in rows}
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
                for row in self.listener.wanted(store.row_in[:alive]):
                    self.listener.wrote(row, list(drawn[row].ids))
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
            if not alive:
                return
            if finished:
                picked = torch.tensor(keep)
                tokens, order = tokens[picked], order[picked]
            positions = torch.tensor(store.length[:alive], device=self.device)[:, None]
            hidden = self._forward(0, tokens[:, None], positions)
            for slot in range(alive):
                store.length[slot] += 1
            logits = self.sampler.head(hidden[:, -1]).float()

    def _draw(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens by inverse transform, their log-probabilities and the entropies; all (n,)."""
        params = self.params
        whole = torch.log_softmax(logits / params.temperature if params.temperature > 0 else logits, dim=-1)
        probabilities = whole.exp()
        entropies = -(probabilities * whole).sum(-1)
        if params.temperature == 0:
            tokens = logits.argmax(-1)
        else:
            cumulative = self._filtered(probabilities).cumsum(-1)
            mass = cumulative[:, -1:]
            # Rounding must not lift the aim to the whole mass: behind it there are none but filtered-out tokens.
            aim = torch.minimum(uniform[:, None] * mass, torch.nextafter(mass, torch.zeros_like(mass)))
            tokens = torch.searchsorted(cumulative, aim, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)
        return tokens, whole.gather(-1, tokens[:, None])[:, 0], entropies

    def _filtered(self, probabilities: Tensor) -> Tensor:
        """Probabilities with everything outside top-k, top-p and min-p set to zero (not renormalised)."""
        params = self.params
        if params.min_p:
            probabilities = probabilities.where(probabilities >= params.min_p * probabilities.amax(-1, keepdim=True), 0)
        if params.top_k:
            least = probabilities.topk(min(params.top_k, probabilities.shape[-1]), dim=-1).values[:, -1:]
            probabilities = probabilities.where(probabilities >= least, 0)
        if params.top_p < 1:
            ordered, index = probabilities.sort(dim=-1, descending=True)
            outside = ordered.cumsum(-1) - ordered >= params.top_p * ordered.sum(-1, keepdim=True)
            probabilities = probabilities.masked_fill(outside.scatter(-1, index, outside), 0)
        return probabilities
