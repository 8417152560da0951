"""Workload of bench/rollout.py: prompts, observations and response lengths, and the two contenders of this process.

Response lengths are forced, so that every contender samples equally many tokens.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria, StoppingCriteriaList

from trainer.engines.sampler import SamplingParams, TokenListener
from trainer.engines.transformers.decode_steps import DecodeMode
from trainer.engines.transformers.transformers_sampler import TransformersSampler, TransformersSession

# Sokoban with the pocket policy: tokens of the shared prefix of first prompts, of a first prompt, of an observation.
INSTRUCTION, FIRST, OBSERVATION = 109, 155, 69
ENDS, PADDING, PLAIN = 2, 0, 5
"""Ids that end a response and fill gaps; observations are made of ids from `PLAIN` on."""


@dataclass(frozen=True)
class Work:
    """Trajectories to play: first prompts (equal within a group), observations and response lengths."""

    firsts: list[list[int]]
    observations: list[list[list[int]]]
    lengths: list[list[int]]

    @property
    def tokens(self) -> int:
        """Return the total number of sampled tokens."""
        return sum(map(sum, self.lengths))

    @property
    def context(self) -> int:
        """Return the tokens of the longest dialogue."""
        rows = zip(self.firsts, self.observations, self.lengths, strict=True)
        return max(len(first) + sum(map(len, seen)) + sum(lengths) for first, seen, lengths in rows)


def make(rows: int, turns: int, group: int, vocabulary: int, lengths: tuple[int, int], seed: int = 0) -> Work:
    """Make random ids in the shape of a rollout; response lengths are drawn evenly from `lengths`, both included."""
    rng = random.Random(seed)

    def text(tokens: int) -> list[int]:
        return [rng.randrange(PLAIN, vocabulary) for _ in range(tokens)]

    instruction = text(INSTRUCTION)
    firsts = [instruction + text(FIRST - INSTRUCTION) for _ in range(-(-rows // group))]
    return Work(
        firsts=[firsts[row // group] for row in range(rows)],
        observations=[[text(OBSERVATION) for _ in range(turns - 1)] for _ in range(rows)],
        lengths=[[rng.randint(*lengths) for _ in range(turns)] for _ in range(rows)],
    )


class _Session(TransformersSession):
    """Our session with forced response lengths."""

    def __init__(self, sampler: OurSampler, seeds: Sequence[int], params: SamplingParams, turns: Sequence[int]) -> None:
        super().__init__(sampler, seeds, params, None, turns)
        self.lengths, self.sampled = [sampler.lengths[row] for row in seeds], [0] * len(seeds)

    def _sample_step(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        tokens, logprobs, entropies = super()._sample_step(logits, uniform)
        ends = []
        for row in self.cache.row_in[: len(tokens)]:
            self.sampled[row] += 1
            ends.append(self.sampled[row] == self.lengths[row][self.turn[row] - 1])
            if ends[-1]:
                self.sampled[row] = 0
        tokens = tokens.masked_fill(tokens == ENDS, PLAIN)
        return tokens.masked_fill(torch.tensor(ends, device=tokens.device), ENDS), logprobs, entropies


class OurSampler(TransformersSampler):
    """The project's sampler with forced response lengths."""

    def __init__(self, model: PreTrainedModel, decoding: DecodeMode | None = None) -> None:
        super().__init__(model, ENDS, PADDING, decoding=decoding)
        self.lengths: list[list[int]] = []

    def thread_session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None, turns: Sequence[int]
    ) -> _Session:
        return _Session(self, seeds, params, turns)  # a row's seed is its number

    def play(self, work: Work) -> int:
        """Play all trajectories to the end; returns the number of sampled tokens."""
        self.lengths, tokens = work.lengths, 0
        session = self.session(range(len(work.firsts)), SamplingParams(max_tokens=max(map(max, work.lengths))))
        turn = [0] * len(work.firsts)
        for row, response in session.generate(dict(enumerate(work.firsts))):
            tokens += len(response.ids)
            if turn[row] < len(work.observations[row]):
                session.append(row, work.observations[row][turn[row]])
            turn[row] += 1
        return tokens


class _Lengths(StoppingCriteria):
    """Stops each row at its forced length."""

    def __init__(self, ends: Tensor) -> None:
        self.ends = ends

    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs: object) -> Tensor:  # type: ignore[override]
        return input_ids.shape[1] >= self.ends


class Generate:
    """`generate` of transformers with its cache, on the complete left-padded dialogues in each turn."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        whole = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        model.generation_config = GenerationConfig(**whole, pad_token_id=PADDING, use_cache=True)

    def play(self, work: Work) -> int:
        """Play all trajectories to the end; returns the number of sampled tokens."""
        texts, tokens = [list(first) for first in work.firsts], 0
        for turn in range(len(work.lengths[0])):
            lengths = [row[turn] for row in work.lengths]
            for text, response, seen in zip(texts, self._responses(texts, lengths), work.observations, strict=True):
                tokens += len(response)
                text += response
                if turn < len(seen):
                    text += seen[turn]
        return tokens

    @torch.inference_mode()
    def _responses(self, texts: list[list[int]], lengths: list[int]) -> list[list[int]]:
        wide, device = max(map(len, texts)), self.model.device
        ids = torch.tensor([[PADDING] * (wide - len(text)) + text for text in texts], device=device)
        mask = torch.tensor([[0] * (wide - len(text)) + [1] * len(text) for text in texts], device=device)
        ends = _Lengths(torch.tensor([wide + length for length in lengths], device=device))
        written = self.model.generate(  # type: ignore[operator]
            ids, attention_mask=mask, max_new_tokens=max(lengths), stopping_criteria=StoppingCriteriaList([ends])
        )
        return [row[wide : wide + length] for row, length in zip(written.tolist(), lengths, strict=True)]
