"""Recorded dialogues, learners and steps for the tests on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bench.lib.recorded_dialogues import GROUP, ragged
from bench.lib.workers.our_worker import batch, settings
from trainer.config.run import RunConfig
from trainer.distributed import fsdp
from trainer.distributed.group import ProcessGroup
from trainer.learner.learner import POLICY, Learner
from trainer.policy.load import Policy
from trainer.rollout.trajectory import Batch

ROWS = 3 * GROUP
VOCABULARY = 500
"""Ids of the dialogues; the pocket policy's vocabulary is a little larger."""
SGD = {"name": "sgd", "policy_lr": 1.0, "max_grad_norm": 1e9}
"""Settings of an optimiser whose step is the gradient."""


def recorded(rows: int = ROWS) -> Batch:
    """Dialogues of one to four turns whose groups share a prompt of at least 80 tokens."""
    return batch(ragged(rows, 160, 40, VOCABULARY, 4))


def config(dtype: str = "float32", rows: int = ROWS, **sections: dict[str, Any]) -> RunConfig:
    """Settings of an update on `recorded`; `sections` update them."""
    data = settings(rows, dtype).model_dump(exclude_unset=True)
    for name, section in sections.items():
        data[name] = data.get(name, {}) | section
    return RunConfig.model_validate(data)


def step_of(policy: Policy, run: RunConfig, played: Batch, group: ProcessGroup | None = None) -> tuple[Tensor, Tensor]:
    """(tokens,) log-probabilities before one update, and the change of all weights by it, both on the CPU."""
    learner = Learner(run, policy, None, group)
    scored = learner.score(played).logprobs
    played.sampler_logprobs = scored.clone()
    weights = learner.trainable[POLICY].weights
    before = [whole(weight).clone() for weight in weights.parameters]
    metrics = learner.update(played, 1)
    assert metrics["update/steps"] == 1
    moved = [(whole(new) - old).float().flatten().cpu() for new, old in zip(weights.parameters, before, strict=True)]
    return scored[played.mask], torch.cat(moved)


def whole(weight: Tensor) -> Tensor:
    """A detached weight, gathered where it is sharded."""
    return fsdp.gather(weight.detach())


def apart(one: Tensor, other: Tensor) -> float:
    """Distance of two tensors as a share of the first one's norm."""
    return float((one - other).norm() / one.norm())
