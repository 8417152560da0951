"""Main loop of the non-zero ranks: executes the commands of rank 0 with the same policy and learner."""

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
from trainer.learner.groups.imitator import Imitator
from trainer.learner.learner import Learner
from trainer.loops.stages import checkpoints
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy, load
from trainer.rollout.distributed import rollout_shard
from trainer.rollout.runner import RolloutRunner

_LEARNER_COMMANDS = ("update", "score", "cross_scores", "state")
_IMITATOR_COMMANDS = ("imitate", "measure")
"""Methods that rank 0 may call on this rank's learner, or on its imitator."""


def ignore_signals() -> None:
    """Ignore stop requests: rank 0 receives them too, finishes its turn and stops the other ranks."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def run_worker(group: TorchrunGroup) -> None:
    """Execute commands until the run is over. An error is sent to rank 0, and raised."""
    worker = _Worker(group)
    channel = group.channels[0]
    try:
        while (command := _next_command(channel)) is not None:
            worker.execute(command)
    except Exception as error:
        try:
            channel.send(("failed", f"{type(error).__name__}: {error}"))
        except OSError:  # rank 0 was lost, which is why this rank failed
            return
        raise
    finally:
        worker.close()
        group.close()


def _next_command(channel: ControlChannel) -> tuple[Any, ...] | None:
    """The next command; None when the run has ended or rank 0 was lost."""
    try:
        command: tuple[Any, ...] = channel.recv()
    except (EOFError, OSError):
        return None
    return None if command[0] == "end" else command


class _Worker:
    """Policy, learner and rollout runner of this rank, according to the last specification."""

    def __init__(self, group: TorchrunGroup) -> None:
        self.group = group
        self.learner: Learner | None = None
        self.imitator: Imitator | None = None
        self.runner: RolloutRunner | None = None

    def execute(self, command: tuple[Any, ...]) -> None:
        """Execute one command of rank 0."""
        match command:
            case ("prepare", spec):
                self._prepare(spec)
            case ("call", name, arguments) if name in _LEARNER_COMMANDS:
                getattr(self.learner, name)(*arguments)
            case ("call", name, arguments) if name in _IMITATOR_COMMANDS:
                getattr(self.imitator, name)(*arguments)
            case ("play", request):
                assert self.runner is not None
                rollout_shard(self.group.channels[0], self.runner, request)
            case ("stop",):  # too late: the shard was played
                pass
            case _:
                raise ValueError(f"unknown command {command[0]!r}")

    def close(self) -> None:
        """Close the rollout runner."""
        if self.runner is not None:
            self.runner.close()
        self.runner = None

    def _prepare(self, spec: LearnerSpec) -> None:
        self.close()
        self.group.configure(spec)
        config = spec.config
        if config.policy.threads:
            torch.set_num_threads(config.policy.threads)
        policy = load(spec.source, config.policy)
        self._make_learner(config, policy, spec)
        if self.learner is not None and spec.saved is not None:
            checkpoints.load_learner(spec.folder, spec.saved, self.learner)
        chat = ChatFormat.of_rollout(policy.tokenizer, config.rollout)
        sampler = ChunkedSampler(
            TransformersSampler(policy.model, chat.eos_id, policy.pad_id),
            config.memory.max_concurrent_trajectories or None,
        )
        self.runner = RolloutRunner(config=config, chat=chat, sampler=sampler, context=policy.context, emit=_discard)

    def _make_learner(self, config: RunConfig, policy: Policy, spec: LearnerSpec) -> None:
        match config.kind:
            case "train":
                reference = None if spec.reference is None else load(spec.reference, config.policy)
                self.learner = Learner(config, policy, reference, self.group)
            case "sft":
                self.imitator = Imitator(config, policy, self.group)
                self.learner = self.imitator.learner
            case "evaluate":
                self.learner = None


def _discard(*events: Any) -> None:
    """Discard events: while it plays, `rollout_shard` sends them to rank 0."""
