"""Critic: state values from a copy of the policy's backbone."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from trainer.policy.packing.layout import PackedBatch


class Critic(nn.Module):
    """V(s) at every token: the policy's backbone, copied before training, with a scalar head initialised to zero.

    Args:
        policy: the model to copy.
        shared: copy the layers but share their weights, for a backbone that stays frozen.
    """

    def __init__(self, policy: PreTrainedModel, *, shared: bool = False) -> None:
        super().__init__()
        memo: dict[int, Any] = {id(weight): weight for weight in policy.parameters()} if shared else {}
        self.backbone = copy.deepcopy(policy.base_model, memo)
        self.head = nn.Linear(policy.config.get_text_config().hidden_size, 1, device=policy.device, dtype=policy.dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids: Tensor, packed: PackedBatch | None = None) -> Tensor:
        """Map (B, T) ids to (B, T) values; column t is the value *before* token t, computed from tokens up to t − 1.

        With `packed` the layers skip padding, and values are 0 there.
        """
        if packed is None:
            hidden = self.backbone(input_ids=ids, use_cache=False).last_hidden_state
            values: Tensor = self.head(hidden)[..., 0].float()
        else:
            values = packed.unpack(self.head(packed.compute_hidden(self.backbone, ids))[..., 0].float())
        return pad(values[:, :-1], (1, 0))
