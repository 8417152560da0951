"""What a process does that is not a run's main one: what it is told, with the same policy and learner, until the end.

It writes no file and reads no signal; the order of things is the main process's business.
"""

from __future__ import annotations

import signal
from typing import Any

import torch

from trainer.config.run import RunConfig
from trainer.distributed.control_channel import ControlChannel
from trainer.distributed.group import LearnerSpec
from trainer.distributed.torchrun import TorchrunGroup
from trainer.engines.transformers.chunks import ChunkedSampler
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.learner.learner import Learner
from trainer.loops import checkpoints
from trainer.loops.sft import Imitator
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import load
from trainer.rollout.distributed import rollout_shard
from trainer.rollout.runner import RolloutRunner

_ORDERS = ("update", "score", "cross_scores", "state", "imitate", "measure")
"""Methods of a learner that the main process may have called here."""


def ignore_signals() -> None:
    """Requests to stop reach the main process too; it finishes its turn and tells the others."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def run_worker(team: TorchrunGroup) -> None:
    """Obey until the run is over. An error is told to the main process, and raised."""
    follower = _Worker(team)
    wire = team.lines[0]
    try:
        while (order := _next(wire)) is not None:
            follower.obey(order)
    except Exception as error:
        try:
            wire.send(("failed", f"{type(error).__name__}: {error}"))
        except OSError:  # the main process is gone: that is why this one failed
            return
        raise
    finally:
        follower.leave()
        team.close()


def _next(wire: ControlChannel) -> tuple[Any, ...] | None:
    """The next order; None at the end of the run, whichever way it came."""
    try:
        order: tuple[Any, ...] = wire.recv()
    except (EOFError, OSError):
        return None
    return None if order[0] == "end" else order


class _Worker:
    """The policy, the learner and the player of this process, as the last recipe made them."""

    def __init__(self, team: TorchrunGroup) -> None:
        self.team = team
        self.player: RolloutRunner | None = None

    def obey(self, order: tuple[Any, ...]) -> None:
        match order:
            case ("prepare", recipe):
                self._prepare(recipe)
            case ("call", name, arguments) if name in _ORDERS:
                assert self.learner is not None
                getattr(self.learner, name)(*arguments)
            case ("play", request):
                assert self.player is not None
                rollout_shard(self.team.lines[0], self.player, request)
            case ("stop",):  # it came too late: the share was played
                pass
            case _:
                raise ValueError(f"unknown order {order[0]!r}")

    def leave(self) -> None:
        """End what plays beside this process."""
        if self.player is not None:
            self.player.close()
        self.player = None

    def _prepare(self, recipe: LearnerSpec) -> None:
        self.leave()
        self.team.follow(recipe)
        config = recipe.config
        if config.policy.threads:
            torch.set_num_threads(config.policy.threads)
        policy = load(recipe.source, config.policy)
        self.learner = self._learner(config, policy, recipe)
        if self.learner is not None and recipe.saved is not None:
            checkpoints.load_learner(recipe.folder, recipe.saved, self.learner)
        chat = ChatFormat(policy.tokenizer, think=config.rollout.think)
        sampler = ChunkedSampler(
            TransformersSampler(policy.model, chat.eos_id, policy.pad_id),
            config.memory.max_concurrent_trajectories or None,
        )
        self.player = RolloutRunner(config=config, chat=chat, sampler=sampler, context=policy.context, emit=_nobody)

    def _learner(self, config: RunConfig, policy: Any, recipe: LearnerSpec) -> Learner | None:
        match config.kind:
            case "train":
                reference = load(recipe.reference, config.policy) if recipe.reference is not None else None
                return Learner(config, policy, reference, self.team)
            case "sft":
                return Imitator(config, policy, self.team)
            case "evaluate":
                return None


def _nobody(*events: Any) -> None:
    """Told to nobody: where it plays, `play_share` says whom to tell."""
