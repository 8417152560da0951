"""Optimisers by name: each learns, resumes, and reports a missing library."""

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.learner.test_learner import batch_of, learner_for, weights
from trainer.config.optimizer import LrSchedule, OptimizerConfig, OptimizerName
from trainer.learner import optimizers
from trainer.policy.load import ModelError

INSTALLED = [name for name in get_args(OptimizerName) if name != "adamw_8bit"]


def learner_with(folder, name, **more):
    return learner_for(
        folder,
        algorithm={"estimator": "gae"},
        optimizer={"name": name, "mini_batch_trajectories": 6, "policy_lr": 1e-3},
        **more,
    )


@pytest.mark.parametrize("name", INSTALLED)
def test_every_optimiser_updates_weights_and_resumes_from_its_state(pocket_folder, tmp_path, name):
    learner = learner_with(pocket_folder, name)
    batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
    before = weights(learner)
    assert learner.update(batch, 1)["update/steps"] == 1
    assert not torch.equal(weights(learner), before)
    torch.save(learner.state(), tmp_path / "state.pt")
    other = learner_with(pocket_folder, name)
    other.policy.model.load_state_dict(learner.policy.model.state_dict())
    assert other.load_state(torch.load(tmp_path / "state.pt", weights_only=True)) == []
    assert learner.update(batch, 2) == other.update(batch, 2)
    assert torch.equal(weights(learner), weights(other))


def test_the_fused_kernel_takes_the_same_steps(pocket_folder):
    learners = [learner_with(pocket_folder, name) for name in ("adamw", "adamw_fused")]
    for learner in learners:
        learner.update(batch_of(learner, [1, 0, 0, 0, 1, 0]), 1)
    assert torch.allclose(*map(weights, learners), rtol=0, atol=1e-6)


def test_muon_leaves_embeddings_norms_and_output_layers_to_adamw(llama_folder):
    learner = learner_with(llama_folder, "muon")
    muon, adamw = learner.trainable["policy"].optimizer.parts
    names = {parameter: name for name, parameter in learner.policy.model.named_parameters()}
    matrices = {names[parameter] for group in muon.param_groups for parameter in group["params"]}
    rest = {names[parameter] for group in adamw.param_groups for parameter in group["params"]}
    assert all(".mlp." in name or ".self_attn." in name for name in matrices)
    assert {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"} <= rest
    assert matrices | rest == set(names.values())


def test_a_checkpoint_of_another_optimiser_loads_without_moments_and_warns(pocket_folder):
    learner = learner_with(pocket_folder, "adamw")
    learner.update(batch_of(learner, [1, 0, 0, 0, 1, 0]), 1)
    other = learner_with(pocket_folder, "sgd")
    (warning,) = other.load_state(learner.state())
    assert warning == "The checkpoint was made with optimizer.name adamw; sgd begins without its moments."
    assert not other.trainable["policy"].optimizer.state_dict()["state"]
    assert learner_with(pocket_folder, "adamw_fused").load_state(learner.state()) == []


def test_a_checkpoint_without_an_optimiser_name_is_adamw(pocket_folder):
    learner = learner_with(pocket_folder, "adamw")
    learner.update(batch_of(learner, [1, 0, 0, 0, 1, 0]), 1)
    old = {name: value for name, value in learner.state().items() if name not in ("optimizer", "policy_masters")}
    again = learner_with(pocket_folder, "adamw")
    assert again.load_state(old) == []
    assert again.trainable["policy"].optimizer.state_dict()["state"]


def test_current_settings_override_those_of_the_checkpoint(pocket_folder):
    learner = learner_with(pocket_folder, "adamw")
    learner.update(batch_of(learner, [1, 0, 0, 0, 1, 0]), 1)
    other = learner_for(
        pocket_folder, algorithm={"estimator": "gae"}, optimizer={"policy_lr": 5e-4, "weight_decay": 0.1}
    )
    other.load_state(learner.state())
    (group,) = other.trainable["policy"].optimizer.param_groups
    assert (group["lr"], group["weight_decay"], group["betas"]) == (5e-4, 0.1, (0.9, 0.999))


def test_a_missing_library_is_named(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(optimizers.importlib, "import_module", absent)
    with pytest.raises(ModelError, match="pip install bitsandbytes, or choose adamw or adafactor"):
        optimizers.make_optimizer(OptimizerConfig(name="adamw_8bit"), 1e-4, [torch.nn.Parameter(torch.ones(2))])


@given(
    st.sampled_from(get_args(LrSchedule)),
    st.integers(0, 20),
    st.integers(1, 200),
    st.integers(1, 200),
)
def test_learning_rates_rise_once_and_then_never_again(schedule, warmup, iterations, iteration):
    settings = OptimizerConfig(lr_schedule=schedule, lr_warmup=warmup)
    end = 0.2 if schedule == "cosine_to_fifth" else 0.0
    now, after = (optimizers.lr_factor(settings, number, iterations) for number in (iteration, iteration + 1))
    assert 0 <= now <= 1
    if iteration <= warmup:
        assert now < after
    elif schedule == "constant":
        assert now == after == 1
    else:
        assert now >= after >= end - 1e-12
        assert now > end or iteration > iterations


def test_decays_begin_at_the_full_rate_and_are_half_way_in_the_middle():
    for schedule, end in (("linear", 0.0), ("cosine", 0.0), ("cosine_to_fifth", 0.2)):
        settings = OptimizerConfig(lr_schedule=schedule, lr_warmup=2)
        factors = [optimizers.lr_factor(settings, number, 10) for number in range(1, 12)]
        assert factors[:3] == pytest.approx([1 / 3, 2 / 3, 1])
        assert factors[6] == pytest.approx((1 + end) / 2)
        assert factors[10] == pytest.approx(end)


def test_policy_and_critic_step_with_the_scheduled_rates_after_a_resumption_too(pocket_folder, tmp_path):
    settings = {"policy_lr": 1e-3, "critic_lr": 2e-3, "lr_schedule": "linear"}

    def made():
        return learner_for(pocket_folder, algorithm={"estimator": "gae"}, optimizer=settings, iterations=4)

    learner, resumed = made(), made()
    batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
    assert learner.update(batch, 1)["policy/learning_rate"] == pytest.approx(1e-3)
    resumed.policy.model.load_state_dict(learner.policy.model.state_dict())
    torch.save(learner.state(), tmp_path / "state.pt")
    resumed.load_state(torch.load(tmp_path / "state.pt", weights_only=True))
    for each in (learner, resumed):
        assert each.update(batch, 3)["policy/learning_rate"] == pytest.approx(5e-4)
        rates = {name: part.optimizer.param_groups[0]["lr"] for name, part in each.trainable.items()}
        assert rates == pytest.approx({"policy": 5e-4, "critic": 1e-3})
    assert torch.equal(weights(learner), weights(resumed))
