"""Several processes take the same steps as one: data-parallel and sharded, with and without critic."""

import os
import subprocess
import sys

import pytest
import torch

from tests.trainer import rank_script, shared_prefix_batches, tiny
from tests.trainer.learner.test_learner import batch_of
from tests.trainer.shared_prefix_batches import Family, prefixes_of
from tests.trainer.threads import THREADS
from trainer.learner.learner import Learner
from trainer.policy.load import load

SECTIONS = {
    "grpo": {"algorithm": {"estimator": "grpo", "kl_coef": 0.01, "kl_penalty": "loss_k1"}},
    "gae": {"algorithm": {"estimator": "gae"}},
    "half": {"algorithm": {"estimator": "gae"}, "policy": {"dtype": "bfloat16"}},
    "adapters": {"algorithm": {"estimator": "gae"}, "lora": {"rank": 4, "alpha": 4}},
    "muon": {"algorithm": {"estimator": "grpo"}, "optimizer": {"name": "muon"}},
    "beginnings": {"algorithm": {"estimator": "gae"}, "optimizer": {"micro_batch_tokens": 256}},
    "recomputed": {"algorithm": {"estimator": "grpo"}, "optimizer": {"gradient_checkpointing": True}},
}
ALONE = Family(9, 5, [[4, 4]])
NEAR = {"half": 5e-3, "muon": 1e-4}
"""Tolerance of sums in another order, rounded to bfloat16: in every layer, and inside Muon."""
SPLIT = [name for name in SECTIONS if name != "adapters"]
EVERY_COMMIT = [("grpo", "none"), ("gae", "full"), ("adapters", "none")]
CASES = [
    pytest.param(name, sharding, marks=() if (name, sharding) in EVERY_COMMIT else pytest.mark.nightly)
    for name, sharding in [*((name, "none") for name in SECTIONS), *((name, "full") for name in SPLIT)]
]


def case(folder, name, sharding="none"):
    """Settings and a recorded batch of seven trajectories of different lengths, which two ranks cannot share evenly."""
    sections = SECTIONS[name]
    optimizer = {"mini_batch_trajectories": 4, "micro_batch_tokens": 64, "policy_lr": 1e-4, "critic_lr": 1e-4}
    config = tiny.config(
        folder, **{**sections, "optimizer": optimizer | sections.get("optimizer", {})}, parallel={"sharding": sharding}
    )
    learner = Learner(config.model_copy(update={"parallel": type(config.parallel)()}), load(folder, config.policy))
    if name == "beginnings":
        batch = shared_prefix_batches.batch_of(
            [Family(70, 40, [[4, 3], [6], [2]]), Family(70, 55, [[5, 5], [3]]), ALONE, ALONE]
        )
        assert len(prefixes_of(batch)) == 2
        batch.sampler_logprobs = learner.score(batch).logprobs
        return config, batch
    return config, batch_of(learner, [1, 0, 0.5, 0, 2, 1, 0.3])


def torchrun(*command, processes=2):
    environment = os.environ | {"OMP_NUM_THREADS": str(THREADS), "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "60"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.Popen(
        [*launcher, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def chosen(request):
    """Name and sharding of the cases in this session, in order."""
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    return (
        list(dict.fromkeys((item.callspec.params["name"], item.callspec.params["sharding"]) for item in items))
        or EVERY_COMMIT
    )


@pytest.fixture(scope="module")
def two(request, llama_folder, tmp_path_factory):
    """Results of two processes for every case: name, sharding → results."""
    folder = tmp_path_factory.mktemp("two")
    cases = {f"{name}-{sharding}": case(llama_folder, name, sharding) for name, sharding in chosen(request)}
    torch.save(cases, folder / "cases.pt")
    child = torchrun("-m", "tests.trainer.rank_script", str(folder))
    out, _ = child.communicate(timeout=900)
    assert child.returncode == 0, out
    return {name: torch.load(folder / f"{name}.after", weights_only=False) for name in cases}


@pytest.fixture(scope="module")
def one(request, llama_folder):
    """Results of one process for every case."""
    names = {name for name, _ in chosen(request)}
    return {name: rank_script.learn(*case(llama_folder, name), None) for name in names}


def furthest(some, others):
    assert some.keys() == others.keys()
    return max(float((some[name].double() - others[name].double()).abs().max()) for name in some)


@pytest.mark.parametrize("name, sharding", CASES)
def test_two_processes_learn_the_same_as_one(one, two, name, sharding):
    single, pair = one[name], two[f"{name}-{sharding}"]
    near = NEAR.get(name, 1e-5)
    assert furthest(single["policy"], pair["policy"]) < near
    assert torch.allclose(single["scores"], pair["scores"], atol=1e-1 if name == "half" else 1e-4)
    assert torch.allclose(single["thoughts"], pair["thoughts"], atol=1e-1 if name == "half" else 1e-4)
    for steps, others in zip(single["values"], pair["values"], strict=True):
        assert others.keys() == steps.keys()
        assert others["update/steps"] == steps["update/steps"] == 2
        rough = 2e-2 if name == "half" else 1e-3
        assert others["policy/grad_norm"] == pytest.approx(steps["policy/grad_norm"], rel=rough)
    if single["learner"]["critic"] is not None:
        assert furthest(single["learner"]["critic"], pair["learner"]["critic"]) < near


@pytest.mark.parametrize("name, sharding", CASES)
def test_a_checkpoint_of_two_processes_is_resumed_by_one(llama_folder, one, two, name, sharding):
    config, batch = case(llama_folder, name)
    single, pair = (
        rank_script.learn(config, batch, None, found, first=rank_script.UPDATES + 1)
        for found in (one[name], two[f"{name}-{sharding}"])
    )
    assert furthest(single["policy"], pair["policy"]) < 2 * NEAR.get(name, 1e-5)


def test_the_state_of_two_processes_is_plain_tensors_on_the_cpu(two):
    def leaves(value):
        if isinstance(value, dict):
            value = list(value.values())
        return [leaf for part in value for leaf in leaves(part)] if isinstance(value, list | tuple) else [value]

    for found in two.values():
        tensors = [leaf for leaf in leaves(found["learner"]) if isinstance(leaf, torch.Tensor)]
        assert tensors
        assert all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors)
