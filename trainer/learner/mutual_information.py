"""Log-probabilities of every thought after every prompt, for metrics of their mutual information."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from trainer.policy.load import Policy, output_head
from trainer.policy.token_logprobs import head_logprobs


@torch.no_grad()
def cross_scores(
    policy: Policy, prompts: list[list[int]], thoughts: list[list[int]], chosen: Iterable[int], max_tokens: int
) -> Tensor:
    """(N, N) ℓ_j(z_i) at temperature 1: the log-probability of thought i after prompt j; 0 for thoughts not chosen.

    Args:
        prompts, thoughts: N of each, as token ids; none empty.
        chosen: indices of the thoughts to score.
        max_tokens: of one forward pass, padding included, unless a single row is longer.
    """
    n = len(prompts)
    scores = torch.zeros(n, n)
    for i in chosen:
        size = max(1, max_tokens // (max(map(len, prompts)) + len(thoughts[i])))
        for start in range(0, n, size):
            scores[i, start : start + size] = _scores_after(policy, prompts[start : start + size], thoughts[i])
    return scores


def _scores_after(policy: Policy, prompts: list[list[int]], thought: list[int]) -> Tensor:
    """(n,) log-probability of the thought after each of n prompts, in one forward pass."""
    n, model = len(prompts), policy.model
    rows = torch.full((n, max(map(len, prompts)) + len(thought)), policy.pad_id, dtype=torch.long)
    positions = torch.zeros(n, len(thought), dtype=torch.long)
    for j, prompt in enumerate(prompts):
        rows[j, : len(prompt) + len(thought)] = torch.tensor(prompt + thought)
        positions[j] = torch.arange(len(prompt) - 1, len(prompt) - 1 + len(thought))
    hidden = model.base_model(input_ids=rows.to(model.device), use_cache=False).last_hidden_state
    picked = hidden[torch.arange(n)[:, None], positions.to(model.device)]
    ids = torch.tensor(thought, device=picked.device).repeat(n)
    return head_logprobs(output_head(model), picked.flatten(0, 1), ids)[0].view(n, -1).sum(1).cpu()
