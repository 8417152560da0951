"""bfloat16 policies: small steps add up in float32 copies, and the learner scores what was played."""

import pytest
import torch
from torch import nn

from tests.trainer import tiny
from tests.trainer.learner.test_learner import batch_of, played
from tests.trainer.steps import variants
from trainer.config.run import PolicyConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.learner.learner import Learner
from trainer.policy.load import load
from trainer.policy.master_weights import MasterWeights
from trainer.rollout.trajectory import collate


def half(folder, **optimizer):
    config = tiny.config(
        folder,
        policy={"dtype": "bfloat16"},
        algorithm={"estimator": "gae"},
        optimizer={"mini_batch_trajectories": 6} | optimizer,
    )
    return Learner(config, load(folder, config.policy))


def test_steps_too_small_for_bfloat16_add_up():
    own = nn.Parameter(torch.full((3,), 0.1, dtype=torch.bfloat16))
    began = own.detach().clone()
    masters = MasterWeights([own])
    optimizer = torch.optim.SGD(masters.parameters, lr=1e-5)
    for _ in range(100):
        (own * torch.ones(3, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        masters.copy_to_model()
    assert own.dtype == torch.bfloat16
    assert torch.allclose(masters.parameters[0], began.float() - 100 * 1e-5, atol=1e-6)
    assert torch.equal(own, masters.parameters[0].bfloat16())
    assert not torch.equal(own, began)


def test_micro_batch_gradients_are_summed_in_float32_without_a_second_copy():
    own = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    masters = MasterWeights([own])
    for amount in (256.0, *[0.5] * 8):  # bfloat16 cannot tell 256.5 from 256
        (own * amount).sum().backward()
    assert own.grad is None
    assert masters.parameters[0].grad.item() == 260.0


def test_float32_parameters_need_no_copy():
    own = nn.Parameter(torch.ones(2))
    masters = MasterWeights([own])
    assert masters.parameters[0] is own
    assert masters.state() is None


def test_a_small_learning_rate_needs_master_weights_in_bfloat16(pocket_folder):
    moved = {}
    for master_weights in (True, False):
        with variants(*([] if master_weights else ["half_steps"])):
            learner = half(pocket_folder, policy_lr=2e-6)
        before = [p.detach().clone() for p in learner.policy.model.parameters()]
        batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
        for iteration in range(20):
            learner.update(batch, iteration + 1)
        after = learner.policy.model.parameters()
        large = [(a != b)[b.abs() > 1e-2] for a, b in zip(after, before, strict=True)]
        moved[master_weights] = int(sum(change.sum() for change in large))
    assert moved[True] > 100
    assert moved[False] == 0


def test_a_bfloat16_run_resumes_from_its_float32_weights(pocket_folder, tmp_path):
    learner = half(pocket_folder, policy_lr=2e-6)
    batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
    learner.update(batch, 1)
    torch.save(learner.state(), tmp_path / "state.pt")
    other = half(pocket_folder, policy_lr=2e-6)
    other.policy.model.load_state_dict(learner.policy.model.state_dict())
    other.load_state(torch.load(tmp_path / "state.pt", weights_only=True))
    for iteration in range(2, 6):
        assert learner.update(batch, iteration) == other.update(batch, iteration)
    pairs = zip(*(one.trainable["policy"].weights.parameters for one in (learner, other)), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("model", ["pocket", "llama"])
def test_values_of_a_bfloat16_update_are_float32_and_accurate(pocket_folder, llama_folder, model):
    folder = {"pocket": pocket_folder, "llama": llama_folder}[model]
    learner = half(folder)
    batch = collate(played([1, 0, 0, 0, 1, 0]), pad_id=0)
    scores = learner.score(batch)
    assert {scores.logprobs.dtype, scores.entropies.dtype, learner.values(batch).dtype} == {torch.float32}
    exact = Learner(tiny.config(folder), load(folder, PolicyConfig())).score(batch)
    assert (scores.logprobs - exact.logprobs).abs().max() < 0.1
    batch.sampler_logprobs = scores.logprobs
    learner.update(batch, 1)
    assert learner.learnt.advantages.dtype == torch.float32


@pytest.mark.parametrize("model", ["pocket", "llama"])
def test_sampler_and_learner_agree_in_bfloat16(pocket_folder, llama_folder, model):
    folder = {"pocket": pocket_folder, "llama": llama_folder}[model]
    learner = half(folder)
    sampler = TransformersSampler(learner.policy.model, learner.policy.tokenizer.eos_token_id)
    session = sampler.session(list(range(8)), SamplingParams(temperature=1.0, max_tokens=24))
    trajectories = played([0.0] * 8, group_size=8)
    prompts = {row: trajectory.ids[:6] for row, trajectory in enumerate(trajectories)}
    answers = dict(session.generate(prompts))
    for row, trajectory in enumerate(trajectories):
        trajectory.ids, trajectory.sampled, trajectory.logprobs = prompts[row] + answers[row].ids, [], []
    difference = []
    for row, trajectory in enumerate(trajectories):
        ids = torch.tensor([trajectory.ids])
        mask = torch.zeros_like(ids, dtype=torch.bool)
        mask[:, len(prompts[row]) :] = True
        with torch.no_grad():
            logprobs, _ = learner.network(ids, mask, 1.0)
        difference.append(logprobs - torch.tensor(answers[row].logprobs))
    apart = torch.cat(difference).double()
    k3 = float((torch.expm1(apart) - apart).mean())
    assert k3 < 1e-3
