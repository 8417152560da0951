"""Forward pass of a policy: from token ids to log-probabilities and entropies."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.policy.head.token_logprobs import head_logprobs
from trainer.policy.load import output_head
from trainer.policy.packing import last_layer
from trainer.policy.packing.layout import PackedBatch


class PolicyForward(nn.Module):
    """The model and its output layer as one module, so that a wrapper (FSDP) handles one call for all weights."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Tensor, mask: Tensor, temperature: float, packed: PackedBatch | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return (M,) log-probabilities and (M,) entropies of the M tokens on the mask.

        Args:
            ids: (B, T) right-padded; attention is causal, so padding needs no mask.
            mask: (B, T) mask of the tokens to score, never the first of a row.
            temperature: temperature of the rollout.
            packed: the rows' layout without padding and with shared prefixes once; None: compute all tokens.
        """
        head = output_head(self.model)
        return head_logprobs(head, hidden_before(self.model, ids, mask, packed), ids[mask], temperature)


def hidden_before(model: PreTrainedModel, ids: Tensor, mask: Tensor, packed: PackedBatch | None = None) -> Tensor:
    """Return (M, H) last hidden states that predict the M tokens on the mask; arguments as in `PolicyForward`.

    If the layout has targets, they must be the targets of this mask.
    """
    if packed is not None and packed.targets is not None and last_layer.is_restricted(model.base_model):
        targets = packed.targets
        return packed.pick(packed.compute_hidden(model.base_model, ids, targets), targets.index)
    if packed is not None:
        return packed.before(packed.compute_hidden(model.base_model, ids), mask)
    hidden: Tensor = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return hidden[:, :-1][mask[:, 1:]]
