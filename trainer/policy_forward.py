"""A policy as the update calls it: from token ids to log-probabilities and entropies. Losses are made elsewhere."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.packing import Packed
from trainer.policies import output_head
from trainer.token_scores import head_scores


class PolicyForward(nn.Module):
    """The model with its output layer as one module, so that whatever wraps a module sees one call for all weights."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Tensor, mask: Tensor, temperature: float, packed: Packed | None = None
    ) -> tuple[Tensor, Tensor]:
        """(M,) log-probabilities and (M,) entropies of the M tokens on the mask.

        Args:
            ids: (B, T) right-padded; attention is causal, so that padding needs no mask.
            mask: (B, T) the tokens to score, never the first of a row.
            temperature: of the rollout.
            packed: leave the padding out of the layers (packing.py); None: compute it too.
        """
        backbone, head = self.model.base_model, output_head(self.model)
        if packed is not None:
            hidden, chosen = packed.hidden_of(backbone, ids)[0], packed.pack(mask)[0]
            before = chosen.nonzero()[:, 0] - 1
            return head_scores(head, hidden[before], packed.pack(ids)[0][chosen], temperature)
        hidden = backbone(input_ids=ids, use_cache=False).last_hidden_state
        chosen = mask[:, 1:]
        return head_scores(head, hidden[:, :-1][chosen], ids[:, 1:][chosen], temperature)
