"""A plain PyTorch and transformers update: padded rows, all logits, in fp32, with the loss of our_worker.py.

`python -m bench.lib.workers.plain_worker JOB` waits for commands (worker_protocol.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from bench.lib.random_models import build
from bench.lib.recorded_dialogues import GROUP, Dialogue, load
from bench.lib.resource_meter import Clock, Peak
from bench.lib.worker_protocol import WorkerConnection

CLIP, ENTROPY, LARGEST_NORM = 0.2, 0.001, 1.0


@dataclass(frozen=True)
class Padded:
    """(B, T) tensors; all but `ids` and `attention` refer to the token in the same column."""

    ids: Tensor
    attention: Tensor
    mask: Tensor
    logprobs: Tensor
    advantages: Tensor

    def pieces(self, rows: int) -> list[Padded]:
        fields = (self.ids, self.attention, self.mask, self.logprobs, self.advantages)
        return [Padded(*parts) for parts in zip(*(field.split(rows) for field in fields), strict=True)]


def padded(dialogues: Sequence[Dialogue], device: str = "cpu") -> Padded:
    """Return right-padded rows, and advantages against the other dialogues of the group."""
    shape = len(dialogues), max(map(len, dialogues))
    ids, attention = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    mask, logprobs = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape)
    for row, dialogue in enumerate(dialogues):
        start, end = len(dialogue.prompt), len(dialogue)
        ids[row, :end] = torch.tensor(dialogue.prompt + dialogue.rest)
        attention[row, :end] = 1
        mask[row, start:end] = torch.tensor(dialogue.sampled)
        if dialogue.logprobs:
            logprobs[row, start:end] = torch.tensor(dialogue.logprobs)
    rewards = torch.tensor([dialogue.reward for dialogue in dialogues]).view(-1, GROUP)
    scaled = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)
    advantages = scaled.reshape(-1, 1).expand(shape).contiguous()
    return Padded(*(field.to(device) for field in (ids, attention, mask, logprobs, advantages)))


def step(
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    inputs: Padded,
    micro: int = 16_384,
    *,
    mixed: bool = False,
) -> float:
    """Take one optimiser step, with forward passes of at most `micro` tokens including padding. Returns the norm.

    Args:
        mixed: compute in bf16 where autocast does, over fp32 weights.
    """
    total = inputs.mask.sum()
    device = inputs.ids.device.type
    for piece in inputs.pieces(max(1, micro // inputs.ids.shape[1])):
        with torch.autocast(device, torch.bfloat16) if mixed else nullcontext():
            logits = model(input_ids=piece.ids, attention_mask=piece.attention, use_cache=False).logits
        logs = logits[:, :-1].float().log_softmax(-1)
        mask = piece.mask[:, 1:]
        logprobs = logs.gather(-1, piece.ids[:, 1:, None])[..., 0]
        entropies = -(logs.exp() * logs).sum(-1)
        ratio = (logprobs - piece.logprobs[:, 1:]).exp()
        advantages = piece.advantages[:, 1:]
        gained = torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
        loss = -((gained + ENTROPY * entropies) * mask).sum() / total
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(norm)


def main() -> None:
    connection, job = WorkerConnection(), json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    device, peak = job["device"], Peak(job["device"])
    model = build(job["shape"], job["seed"], device)
    if job["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0)
    connection.answer(versions={"torch": torch.__version__})
    loaded: dict[str, Padded] = {}
    while True:
        name = connection.next()["work"]
        if name not in loaded:
            loaded[name] = padded(load(Path(name)), device)
        clock = Clock(peak)
        norm = step(model, optimizer, loaded[name], mixed=job["dtype"] == "bfloat16")
        connection.answer(**clock.stop(), norm=norm)


if __name__ == "__main__":
    main()
