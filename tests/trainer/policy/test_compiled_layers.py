"""Compiled parts of layers: the same step, without gradients as usual, nothing but attention left out."""

from __future__ import annotations

import pytest
import torch

from tests.trainer.learner.test_learner import batch_of, learner_for
from tests.trainer.steps import SGD, assert_same_step, stepped_on, variants
from trainer.policy import compiled_layers
from trainer.policy.load import ModelError


@pytest.fixture
def compiled_calls(monkeypatch):
    """Compilation with Dynamo alone, which needs no compiler; the names of the functions that were called."""
    calls = []
    whole = torch.compile

    def compile_(forward, **named):
        made = whole(forward, backend="eager", **named)

        def called(*arguments, **more):
            calls.append(type(forward.__self__).__name__)
            return made(*arguments, **more)

        return called

    monkeypatch.setattr(compiled_layers.torch, "compile", compile_)
    return calls


@pytest.mark.parametrize("recomputed", [False, True])
def test_compiled_layers_give_the_same_step(pocket_folder, compiled_calls, recomputed):
    steps, before = [], None
    for names in ([], ["compiled"]):
        with variants(*names):
            learner = learner_for(
                pocket_folder,
                algorithm={"estimator": "gae"},
                optimizer=SGD | {"gradient_checkpointing": recomputed, "mini_batch_trajectories": 6},
            )
        batch = batch_of(learner, [1, 0, 0.5, 0, 2, 1])
        assert not compiled_calls, "scoring is not compiled"
        before = {key: value.clone() for key, value in stepped_on(learner).items()}
        learner.update(batch, 1)
        steps.append(stepped_on(learner))
    assert set(compiled_calls) == {"Qwen2MLP", "Qwen2RMSNorm"}
    assert_same_step(before, *steps)


def test_a_model_without_known_layers_is_refused():
    with pytest.raises(ModelError, match=r"take compiled out of ECHOSCOPE_UPDATE_VARIANTS"):
        compiled_layers.compile_layers(torch.nn.Linear(2, 2))
