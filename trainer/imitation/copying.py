"""Copying exercises: random tokens, and repeated spans of them.

Thoughts and answers quote the prompt. Demonstrations teach this late, since most of their tokens can be written without
it; random tokens can only be continued by copying.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

TOKENS = 2048
"""Number of tokens in a batch."""
_LENGTHS = (64, 512)
"""Lengths of texts, including the first and excluding the second, drawn log-uniformly: short ones are learnt first."""
_RANDOM = 0.5
"""Share of random tokens at the start of a text; spans of them follow."""
_SPAN = (4, 17)
"""Lengths of spans, including the first and excluding the second."""
_FREQUENT_KINDS = 6
"""Number of frequent tokens in a text."""


@dataclass(frozen=True)
class CopyingBatch:
    """Practice texts of equal length."""

    ids: Tensor
    """(batch, length) token ids."""
    copied: Tensor
    """(batch, length) bool: tokens that follow from earlier ones, namely all tokens of a span except the first."""


def copyable_tokens(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Return the ids of all tokens except the special ones."""
    return sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))


def copying_batch(
    tokens: list[int], rng: np.random.Generator, length: int | None = None, *, frequent: float = 0.0
) -> CopyingBatch:
    """Draw practice texts, about `TOKENS` tokens in all.

    Args:
        tokens: ids to draw from.
        rng: draws everything.
        length: length of each text; None: drawn at random.
        frequent: share of each text, 0 to 1, drawn from a few of the tokens. The successor of such a token depends on
            several tokens before it, as after the brackets and digits of a page.
    """
    shortest, longest = _LENGTHS
    length = length or int(shortest * (longest / shortest) ** rng.random())
    size, text = TOKENS // length, int(length * _RANDOM)
    ids = rng.choice(tokens, size=(size, length))
    copied = np.zeros((size, length), dtype=bool)
    for row in range(size):
        if frequent:
            often = rng.random(length) < frequent
            ids[row, often] = rng.choice(rng.choice(tokens, size=_FREQUENT_KINDS), size=int(often.sum()))
        end = text
        while end < length:
            span = min(int(rng.integers(*_SPAN)), length - end)
            start = int(rng.integers(text - span + 1))
            ids[row, end : end + span] = ids[row, start : start + span]
            copied[row, end + 1 : end + span] = True
            end += span
    return CopyingBatch(torch.from_numpy(ids), torch.from_numpy(copied))


def copying_loss(model: Qwen2ForCausalLM, batch: CopyingBatch) -> Tensor:
    """Compute the mean cross-entropy of the copied tokens, nats."""
    hidden = model.base_model(input_ids=batch.ids).last_hidden_state
    copied = batch.copied[:, 1:]
    logits = model.lm_head(hidden[:, :-1][copied])
    return torch.nn.functional.cross_entropy(logits.float(), batch.ids[:, 1:][copied])
