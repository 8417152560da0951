"""Log-probabilities of every thought after every prompt, for metrics of their mutual information."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from trainer.learner.micro_batches import partition_shared
from trainer.learner.scoring import scatter_tokens
from trainer.policy.forward import hidden_before
from trainer.policy.head.token_logprobs import head_logprobs
from trainer.policy.load import Policy, output_head
from trainer.policy.packing.layout import PackedBatch
from trainer.policy.packing.shared_prefix import find_row_prefixes, prefixes_within


@torch.no_grad()
def cross_scores(
    policy: Policy,
    prompts: list[list[int]],
    thoughts: list[list[int]],
    chosen: Iterable[int],
    max_tokens: int,
    *,
    share_prompts: bool,
) -> Tensor:
    """Return (N, N) ℓ_j(z_i) at temperature 1: log-probability of thought i after prompt j; 0 for thoughts not chosen.

    Args:
        prompts, thoughts: N of each, as non-empty lists of token ids.
        chosen: indices of the thoughts to score.
        max_tokens: limit for one forward pass, including padding, with shared prompts counted once, unless a single row
            is longer.
        share_prompts: compute a prompt once for several thoughts, and a common prefix of prompts once for all of them;
            for a model after `packing.attention.prepare`.
    """
    n = len(prompts)
    scores = torch.zeros(n, n)
    if share_prompts:
        for block in _blocks(chosen, prompts, thoughts, max_tokens):
            scores[block] = _scores_of_block(policy, prompts, [thoughts[i] for i in block], max_tokens)
        return scores
    for i in chosen:
        size = max(1, max_tokens // (max(map(len, prompts)) + len(thoughts[i])))
        for start in range(0, n, size):
            part = slice(start, start + size)
            ids, mask = _rows(prompts[part], [thoughts[i]], policy.pad_id)
            scores[i, part] = _scores_of_rows(policy, ids, mask, None)
    return scores


def _blocks(
    chosen: Iterable[int], prompts: list[list[int]], thoughts: list[list[int]], max_tokens: int
) -> Iterator[list[int]]:
    """Yield thoughts to score together: with all prompts about `max_tokens` tokens, or a single thought."""
    read = sum(map(len, prompts))
    block: list[int] = []
    tokens = read
    for i in chosen:
        added = len(prompts) * len(thoughts[i])
        if block and tokens + added > max_tokens:
            yield block
            block, tokens = [], read
        block.append(i)
        tokens += added
    if block:
        yield block


def _scores_of_block(policy: Policy, prompts: list[list[int]], thoughts: list[list[int]], max_tokens: int) -> Tensor:
    """Return (thoughts, prompts) log-probabilities; rows with the same prompt are computed together."""
    ids, mask = _rows(prompts, thoughts, policy.pad_id)
    ends = torch.tensor([len(prompt) + len(thought) for prompt in prompts for thought in thoughts])
    attention = torch.arange(ids.shape[1]) < ends[:, None]
    prefixes = find_row_prefixes(ids, attention, mask)
    scores = torch.zeros(len(ids))
    for rows in partition_shared(ends, prefixes, max_tokens):
        wide = int(ends[rows].max())
        own_ids, own_mask = ids[rows, :wide], mask[rows, :wide]
        shared = prefixes_within(prefixes, rows)
        packed = PackedBatch.of(attention[rows, :wide], shared, mask=own_mask, device=policy.model.device)
        scores[rows] = _scores_of_rows(policy, own_ids, own_mask, packed)
    return scores.view(len(prompts), len(thoughts)).t()


def _rows(prompts: list[list[int]], thoughts: list[list[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return (prompts · thoughts, T) ids and mask of the thoughts: every prompt with every thought, right-padded."""
    pairs = [(prompt, thought) for prompt in prompts for thought in thoughts]
    shape = len(pairs), max(len(prompt) + len(thought) for prompt, thought in pairs)
    ids, mask = torch.full(shape, pad_id, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
    for row, (prompt, thought) in enumerate(pairs):
        end = len(prompt) + len(thought)
        ids[row, :end] = torch.tensor(prompt + thought)
        mask[row, len(prompt) : end] = True
    return ids, mask


def _scores_of_rows(policy: Policy, ids: Tensor, mask: Tensor, packed: PackedBatch | None) -> Tensor:
    """Return the (n,) log-probability of the tokens on each row's mask, in one forward pass."""
    ids, mask = ids.to(policy.model.device), mask.to(policy.model.device)
    hidden = hidden_before(policy.model, ids, mask, packed)
    logprobs, _ = head_logprobs(output_head(policy.model), hidden, ids[mask])
    return scatter_tokens(logprobs, mask).sum(1).cpu()
