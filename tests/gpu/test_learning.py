"""Forward passes and updates on a GPU equal those on a CPU."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.conftest import pocket
from tests.gpu.dialogues import SGD, VOCABULARY, apart, config, recorded, step_of
from tests.trainer.steps import variants
from trainer.learner.learner import Learner
from trainer.memory.estimate import CUDA_CONTEXT, estimate_memory
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.load import Policy
from trainer.policy.shapes import read_folder

WITHIN = 1e-3
"""Sums in another order, in float32 without TF32."""


def test_hidden_states_equal_those_of_the_cpu(on_cpu: Policy, on_gpu: Policy) -> None:
    ids = torch.randint(10, VOCABULARY, (4, 300), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        here = on_gpu.model(input_ids=ids.cuda()).logits.cpu()
        there = on_cpu.model(input_ids=ids).logits
    assert apart(there, here) < WITHIN


@pytest.mark.parametrize(
    ("optimizer", "names"),
    [
        ({}, []),
        ({}, ["separate"]),
        ({}, ["separate", "packed"]),
        ({"gradient_checkpointing": True}, []),
        ({}, ["compiled"]),
        ({"micro_batch_tokens": 2048}, []),
    ],
)
def test_scores_and_step_equal_those_of_the_cpu(optimizer: dict[str, object], names: list[str]) -> None:
    expected = step_of(pocket("cpu"), config(optimizer=SGD), recorded())
    with variants(*names):
        found = step_of(pocket("cuda"), config(optimizer=SGD | optimizer), recorded())
    assert float((expected[0] - found[0]).abs().max()) < WITHIN
    assert apart(expected[1], found[1]) < 10 * WITHIN


def test_the_critic_and_its_step_work_with_every_saving(on_gpu: Policy) -> None:
    run = config(
        algorithm={"estimator": "gae"},
        optimizer=SGD | {"gradient_checkpointing": True, "critic_lr": 0.1},
    )
    learner = Learner(run, on_gpu)
    played = recorded()
    played.sampler_logprobs = learner.score(played).logprobs
    metrics = learner.update(played, 1)
    assert metrics["value/grad_norm"] > 0
    assert metrics["policy/grad_norm"] > 0


def test_half_precision_steps_on_float32_copies() -> None:
    """In bfloat16 single weights round, so only the direction of the whole step is compared."""
    expected = step_of(pocket("cpu"), config(optimizer=SGD), recorded())[1]
    found = step_of(pocket("cuda", "bfloat16"), config("bfloat16", optimizer=SGD), recorded())[1]
    assert float(expected @ found / expected.norm() / found.norm()) > 0.98


@pytest.mark.parametrize("name", ["adamw", "adamw_fused", "adafactor", "muon"])
def test_every_optimizer_takes_a_step(name: str) -> None:
    _, moved = step_of(pocket("cuda"), config(optimizer={"name": name, "policy_lr": 1e-4}), recorded())
    assert 0 < float(moved.abs().max()) < 0.1


def test_fused_adamw_steps_as_adamw() -> None:
    steps = [
        step_of(pocket("cuda"), config(optimizer={"name": name, "policy_lr": 1e-4}), recorded())[1]
        for name in ("adamw", "adamw_fused")
    ]
    assert apart(*steps) < 1e-2


def test_adapters_learn(on_gpu: Policy) -> None:
    run = config(lora={"rank": 4, "alpha": 8}, optimizer={"policy_lr": 1e-3})
    _, moved = step_of(on_gpu, run, recorded())
    assert float(moved.abs().max()) > 0


def test_learning_stays_within_the_memory_estimate() -> None:
    shape = read_folder(POCKET_CHECKPOINT)
    assert shape is not None
    run = config("bfloat16", optimizer={"micro_batch_tokens": 8192})
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step_of(pocket("cuda", "bfloat16"), run, recorded())
    used = torch.cuda.max_memory_allocated() - before
    assert used < estimate_memory(run, shape, gpu=True).peak - CUDA_CONTEXT


def test_running_out_of_memory_is_answered_with_smaller_micro_batches(on_gpu: Policy) -> None:
    learner = Learner(config(optimizer={"micro_batch_tokens": 4096}), on_gpu)
    played, notices = recorded(), []
    learner.notify_with(notices.append)
    whole, failures = learner.network.forward, iter([torch.OutOfMemoryError("no memory")])

    def once(*arguments: object, **named: object) -> object:
        if (error := next(failures, None)) is not None:
            raise error
        return whole(*arguments, **named)

    learner.network.forward = once  # type: ignore[method-assign]
    played.sampler_logprobs = learner.score(played).logprobs
    assert learner.update(played, 1)["update/steps"] == 1
    assert len(notices) == 1
    assert "2048" in notices[0]
