"""Log-probabilities of every thought after every prompt, for metrics of their mutual information."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from trainer.policy.load import Policy, output_head
from trainer.policy.token_logprobs import head_logprobs


@torch.no_grad()
def cross_scores(policy: Policy, prompts: list[list[int]], thoughts: list[list[int]], chosen: Iterable[int]) -> Tensor:
    """(N, N) ℓ_j(z_i) at temperature 1: the log-probability of thought i after prompt j; 0 for thoughts not chosen.

    Args:
        prompts, thoughts: N of each, as token ids; none empty.
        chosen: indices of the thoughts to score.
    """
    n, model = len(prompts), policy.model
    scores = torch.zeros(n, n)
    head = output_head(model)
    for i in chosen:
        thought = thoughts[i]
        longest = max(map(len, prompts)) + len(thought)
        rows = torch.full((n, longest), policy.pad_id, dtype=torch.long)
        positions = torch.zeros(n, len(thought), dtype=torch.long)
        for j, prompt in enumerate(prompts):
            rows[j, : len(prompt) + len(thought)] = torch.tensor(prompt + thought)
            positions[j] = torch.arange(len(prompt) - 1, len(prompt) - 1 + len(thought))
        hidden = model.base_model(input_ids=rows.to(model.device), use_cache=False).last_hidden_state
        picked = hidden[torch.arange(n)[:, None], positions.to(model.device)]
        ids = torch.tensor(thought, device=picked.device).repeat(n)
        scores[i] = head_logprobs(head, picked.flatten(0, 1), ids)[0].view(n, -1).sum(1).cpu()
    return scores
