"""Out of memory while learning: the micro-batch is halved once, nothing counts twice, and a notice is written."""

from contextlib import nullcontext
from dataclasses import dataclass

import pytest
import torch

from tests.trainer import steps, tiny
from tests.trainer.learner.test_learner import batch_of
from trainer.journal.events import Notice, RunFinished
from trainer.journal.reader import read
from trainer.learner.learner import Learner
from trainer.loops import run_factory, train
from trainer.memory.oom import OomRetry, OutOfMemoryError, oom_errors
from trainer.policy.load import load

WHOLE, HALF = 256, 128
FULL = "CUDA out of memory. Tried to allocate 2.00 GiB"


def small_device(module, monkeypatch, fails):
    """The second layer of a module runs out of memory at the passes for which `fails(number, tokens)` is true.

    Passes of an optimiser step have the numbers 1, 2, …; those that only score have 0.
    """
    layer = module.layers[1].mlp
    forward, learning = layer.forward, []

    def limited(hidden):
        tokens = hidden.shape[0] * hidden.shape[1]
        learning.extend([tokens] * torch.is_grad_enabled())
        if fails(len(learning) * torch.is_grad_enabled(), tokens):
            raise torch.OutOfMemoryError(FULL)
        return forward(hidden)

    monkeypatch.setattr(layer, "forward", limited)


def whole_batch(number, tokens):
    """All six rows at once do not fit."""
    return tokens > HALF


def whole_step(number, tokens):
    """All six rows at once fit in a forward pass, but not in an update."""
    return number > 0 and tokens > HALF


def second_pass(number, tokens):
    """The gradients of the first micro-batch already exist."""
    return number == 2


@dataclass
class Trained:
    """The weights before and after a step, its metrics, the micro-batch in the end, and the notices."""

    before: steps.Weights
    after: steps.Weights
    metrics: dict[str, float]
    micro_batch: int
    notices: list[str]


def trained(folder, monkeypatch, micro_batch, fails=None, *, critic=False, **sections):
    """Result of one step on six trajectories on such a device.

    Trajectories are scored in micro-batches of a fixed size, so that inputs are equal.
    """
    estimator = {"algorithm": {"estimator": "gae" if critic else "grpo"}}
    optimizer = steps.SGD | {"mini_batch_trajectories": 6}
    config = tiny.config(folder, **estimator | {"optimizer": optimizer} | sections)
    batch = batch_of(Learner(config, load(folder, config.policy)), [1, 0, 0, 0, 0, 1])
    config.optimizer.micro_batch_tokens = micro_batch
    learner = Learner(config, load(folder, config.policy))
    if critic:
        torch.nn.init.normal_(learner.critic.head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    notices = []
    learner.oom_retry.on_retry = notices.append
    if fails is not None:
        small_device(learner.critic.backbone if critic else learner.policy.model.base_model, monkeypatch, fails)
    before = steps.stepped_on(learner)
    metrics = learner.update(batch, 1)
    return Trained(before, steps.stepped_on(learner), metrics, learner.oom_retry.tokens, notices)


def assert_retry_equals_small(pocket_folder, monkeypatch, start, fails, **sections):
    """A retried step gives the weights of the smaller micro-batch size."""
    halved = trained(pocket_folder, monkeypatch, start, fails, **sections)
    small = trained(pocket_folder, monkeypatch, start // 2, **sections)
    assert halved.micro_batch == small.micro_batch == start // 2
    assert len(halved.notices) == 1
    assert small.notices == []
    steps.assert_same_step(halved.before, halved.after, small.after)
    assert halved.metrics == pytest.approx(small.metrics, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("critic", [False, True])
@pytest.mark.parametrize(("start", "fails"), [(WHOLE, whole_batch), (WHOLE, whole_step), (HALF, second_pass)])
def test_an_oom_retry_gives_the_weights_of_the_smaller_micro_batch_size(
    pocket_folder, monkeypatch, critic, start, fails
):
    assert_retry_equals_small(pocket_folder, monkeypatch, start, fails, critic=critic)


def test_an_oom_retry_discards_gradients_of_float32_copies(pocket_folder, monkeypatch):
    assert_retry_equals_small(pocket_folder, monkeypatch, HALF, second_pass, policy={"dtype": "bfloat16"})


def test_the_oom_notice_names_the_cause_and_the_setting(pocket_folder, monkeypatch):
    (sentence,) = trained(pocket_folder, monkeypatch, WHOLE, whole_batch).notices
    assert f"optimizer.micro_batch_tokens={WHOLE}" in sentence
    assert f"optimizer.micro_batch_tokens={HALF}" in sentence
    assert "optimizer.gradient_checkpointing" in sentence


def test_a_second_oom_ends_with_advice(pocket_folder, monkeypatch):
    with pytest.raises(OutOfMemoryError, match=r"micro-batches of 128 tokens.*gradient_checkpointing"):
        trained(pocket_folder, monkeypatch, WHOLE, lambda number, tokens: True)


def test_the_micro_batch_size_is_halved_only_once():
    room, tries = OomRetry(100), []

    def work(tokens):
        tries.append(tokens)
        if tokens > 60:
            raise torch.OutOfMemoryError(FULL)
        return "done"

    assert [room.run(work) for _ in range(3)] == ["done"] * 3
    assert tries == [100, 50, 50, 50]

    def never(tokens):
        raise torch.OutOfMemoryError(FULL)

    with pytest.raises(OutOfMemoryError):
        room.run(never)


def test_synchronised_processes_do_not_retry():
    with pytest.raises(OutOfMemoryError, match="micro-batches of 100 tokens: "):
        OomRetry(100, enabled=False).run(lambda tokens: (_ for _ in ()).throw(torch.OutOfMemoryError(FULL)))


def test_other_errors_propagate():
    with pytest.raises(ZeroDivisionError):
        OomRetry(100).run(lambda tokens: 1 / 0)


def test_an_oom_outside_the_step_is_explained():
    with (
        pytest.raises(OutOfMemoryError, match=r"Tried to allocate|out of memory.*python -m trainer estimate-memory"),
        oom_errors(),
    ):
        raise torch.OutOfMemoryError(FULL)


@pytest.mark.parametrize(("failures", "reason"), [(1, "completed"), (2, "error")])
def test_the_journal_records_the_oom_retry(pocket_folder, tmp_path, monkeypatch, failures, reason):
    config = tiny.config(pocket_folder, iterations=1, algorithm={"drop_zero_std": False}, evaluation={"prompts": 0})
    config.algorithm.estimator = "reinforce_plus_plus"
    make_learners, broken = train.make_learners, []

    def on_a_small_device(session, setup):
        learner = make_learners(session, setup)
        layer = learner.policy.model.base_model.layers[1].mlp
        forward = layer.forward

        def limited(hidden):
            if torch.is_grad_enabled() and len(broken) < failures:
                broken.append(hidden)
                raise torch.OutOfMemoryError(FULL)
            return forward(hidden)

        monkeypatch.setattr(layer, "forward", limited)
        return learner

    monkeypatch.setattr(train, "make_learners", on_a_small_device)
    with pytest.raises(OutOfMemoryError) if reason == "error" else nullcontext():
        run_factory.run(config, tmp_path, tmp_path / "cache")
    events = list(read(tmp_path / "journal.jsonl"))
    messages = [event.message for event in events if isinstance(event, Notice) and "ran out" in event.message]
    assert len(messages) == 1
    end = events[-1]
    assert isinstance(end, RunFinished)
    assert end.reason == reason
    if reason == "error":
        assert "optimizer.gradient_checkpointing" in end.message
        assert "NoRoomError" not in end.message
