"""Comparison of the steps of two learners, relative to the step itself.

Sums in another order differ in their last bits, and the order depends on the processor. Adam's first step is the sign
of the gradient, so where a gradient is nearly zero such a bit decides: compare steps of SGD.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor

from trainer.config.update_variants import VARIANTS_VARIABLE
from trainer.learner.learner import Learner

Weights = dict[tuple[str, str], Tensor]

SGD = {"name": "sgd", "policy_lr": 1.0, "critic_lr": 1.0}
"""Settings of an optimiser whose step is the gradient."""


@contextmanager
def variants(*names: str) -> Iterator[None]:
    """Learners made inside the block compute their updates in these variants."""
    with patch.dict(os.environ, {VARIANTS_VARIABLE: ",".join(names)}):
        yield


def stepped_on(learner: Learner) -> Weights:
    """Copies of all optimised tensors, by part ("policy", "critic") and name; float32 copies if there are any."""
    return {
        (part, name): weight.detach().double()
        for part, trained in learner.trainable.items()
        for name, weight in zip(
            (name for name, own in trained.module.named_parameters() if own.requires_grad),
            trained.weights.parameters,
            strict=True,
        )
    }


def assert_same_step(before: Weights, one: Weights, other: Weights, within: float = 1e-5) -> None:
    """Asserts that two learners moved from equal weights to equal weights.

    Args:
        within: how far apart a parameter's two steps may be, as a share of the norm of its part's whole step.
    """
    assert before.keys() == one.keys() == other.keys()
    for part in dict.fromkeys(part for part, _ in before):
        names = [name for of, name in before if of == part]
        step = torch.stack([(one[part, name] - before[part, name]).norm() for name in names]).norm()
        assert step > 0, f"the {part} took no step"
        apart = {name: float((one[part, name] - other[part, name]).norm() / step) for name in names}
        furthest = max(apart, key=lambda name: apart[name])
        assert apart[furthest] <= within, (
            f"the steps of the {part} differ in {sum(far > within for far in apart.values())} of {len(names)} "
            f"parameters, most in {furthest}: by {apart[furthest]:.1e} of the whole step, where {within:.0e} is allowed"
        )
