"""Faults planted in small runs of a policy that can play: each is named as the earliest cause, and soon."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from envs.sandbox.client import EnvironmentFailure
from tests.tiers import nightly_but
from trainer.config.files import load_preset
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.events import Faults
from trainer.journal.protocol import JOURNAL_FILE
from trainer.learner import learner, optimizers, step_losses
from trainer.loops import run_factory, system_sampler
from trainer.loops.stages import rollout_stage
from trainer.metrics.fault_causes import consequences
from trainer.policy.chat_format import ChatFormat
from trainer.rollout import episode
from trainer.rollout.actions import ActionExecutor
from trainer.rollout.episode import Episode
from trainer.rollout.rollout_pool import LocalRolloutPool
from trainer.rollout.runner import RolloutRunner

FROM = 4
"""Iteration in which a fault begins."""
Patch = Callable[[Any, str, Callable[..., Any]], None]
"""Wraps a function of an object or module from iteration FROM on; the wrapper gets the original first."""


def settings() -> RunConfig:
    config = load_preset("bandit-starpo_s-pocket")
    return RunConfig.model_validate(
        config.model_dump()
        | {
            "iterations": FROM + 2,
            "rollout": config.rollout.model_dump() | {"groups": 6, "group_size": 6},
            "evaluation": config.evaluation.model_dump() | {"prompts": 0},
            "algorithm": config.algorithm.model_dump() | {"entropy_coef": 0.0},
        }
    )


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Patch:
    iteration = 0
    play = rollout_stage.RolloutStage.play

    def played(self: Any, number: int) -> Any:
        nonlocal iteration
        iteration = number
        return play(self, number)

    monkeypatch.setattr(rollout_stage.RolloutStage, "play", played)

    def wrap(owner: Any, name: str, faulty: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            if iteration < FROM:
                return original(*args, **kwargs)
            return faulty(original, *args, **kwargs)

        monkeypatch.setattr(owner, name, called)

    return wrap


def failing(error: Exception) -> Callable[..., Any]:
    def step(original: Any, executor: ActionExecutor, *args: Any) -> Any:
        if executor.trajectory.member % 3 == 0:
            raise error
        return original(executor, *args)

    return step


def times(factor: float) -> Callable[..., Any]:
    """A loss that is multiplied."""

    def loss(original: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        return replace(found, loss=found.loss * factor)

    return loss


def far_away(original: Any, *args: Any) -> Any:
    """Every ratio is beyond the bound on the side where it stops the gradient."""
    advantages, tensors = original(*args)
    tensors.old_logprobs = tensors.old_logprobs - torch.sign(tensors.advantages)
    return advantages, tensors


def measured(**values: float) -> Callable[..., Any]:
    return lambda original, self: original(self) | values


def slow(original: Any, *args: Any) -> Any:
    began = time.monotonic()
    result = original(*args)
    time.sleep(9 * (time.monotonic() - began))
    return result


SAMPLING = (RolloutRunner, "_sampling_params")
PLANTED: dict[str, tuple[str, Any, str, Callable[..., Any]]] = {
    "an environment raises": ("environment_errors", ActionExecutor, "_step", failing(OSError("the disk is gone"))),
    "an environment exits": ("environment_errors", ActionExecutor, "_step", failing(EnvironmentFailure("it exited"))),
    "a reward is NaN": ("environment_errors", ActionExecutor, "_step", failing(ValueError("the reward nan"))),
    "an environment hangs": (
        "environment_timeouts",
        ActionExecutor,
        "_step",
        failing(EnvironmentFailure("no answer within 10 s", timed_out=True)),
    ),
    "weights do not reach the sampler": ("stale_weights", LocalRolloutPool, "update_weights", lambda *_: None),
    "the sampler has another temperature": (
        "mismatch",
        *SAMPLING,
        lambda original, *args: replace(original(*args), temperature=2.5),
    ),
    "the schedule has ended": ("no_learning_rate", optimizers, "lr_factor", lambda *_: 0.0),
    "losses are infinite": ("broken_gradient", step_losses, "policy_loss", times(math.inf)),
    "losses are NaN": ("broken_gradient", step_losses, "policy_loss", times(math.nan)),
    "nothing has a gradient": ("no_gradient", step_losses, "policy_loss", times(0.0)),
    "the update is far from the rollout": ("clipped", learner, "estimate_update", far_away),
    "responses are too short": (
        "truncation",
        *SAMPLING,
        lambda original, *args: replace(original(*args), max_tokens=2),
    ),
    "the tokenizer is another one": (
        "garbled_text",
        ChatFormat,
        "decode",
        lambda original, *args: "".join(chr(ord(sign) % 7 + 1) for sign in original(*args)),
    ),
    "answers are read in another form": (
        "no_valid_answer",
        episode,
        "parse_response",
        lambda original, text, **options: original(text.replace("answer", "reply"), **options),
    ),
    "every reward is the same": ("no_signal", Episode, "_reward_terms", lambda *_, **__: {"environment": 0.0}),
    "the data loader starts again": (
        "repeated_puzzles",
        rollout_stage,
        "train_plans",
        lambda original, config, shares, iteration: [
            replace(plan, seed=earlier.seed)
            for plan, earlier in zip(
                original(config, shares, iteration), original(config, shares, iteration - 1), strict=True
            )
        ],
    ),
    "the clock is set": (
        "clock_jump",
        system_sampler.SystemSampler,
        "collect",
        lambda original, self: original(_earlier(self)),
    ),
    "the disk fills up": (
        "low_disk",
        system_sampler.SystemSampler,
        "collect",
        measured(**{"system/disk_free_bytes": 1e8}),
    ),
    "memory is used up": (
        "low_memory",
        system_sampler.SystemSampler,
        "collect",
        measured(**{"system/memory_available_bytes": 1e8}),
    ),
    "the machine is busy": ("slow_rollout", LocalRolloutPool, "play", slow),
}
OFTEN = ("an environment hangs", "losses are NaN", "every reward is the same")


def _earlier(sampler: system_sampler.SystemSampler) -> system_sampler.SystemSampler:
    sampler._clock -= 7200
    return sampler


@pytest.mark.parametrize("name", nightly_but(PLANTED, OFTEN))
def test_a_planted_fault_is_named_as_the_earliest_cause_within_three_iterations(
    name: str, patch: Patch, tmp_path: Path
) -> None:
    cause, owner, function, faulty = PLANTED[name]
    patch(owner, function, faulty)
    run_factory.run(settings(), tmp_path, tmp_path / "cache")
    found = [event for event in reader.read(tmp_path / JOURNAL_FILE) if isinstance(event, Faults)]
    assert found, "nothing was named"
    assert found[0].iteration >= FROM
    present = found[-1].present
    roots = [fault for fault in present if fault.cause not in consequences(present)]
    assert roots[0].cause == cause, [fault.model_dump() for fault in present]
    assert FROM <= roots[0].since <= FROM + 2
