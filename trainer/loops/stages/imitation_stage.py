"""Optimiser steps on a solver's demonstrations: a run of kind sft, and the warm-up of a training run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import torch

from trainer.config.run import RunConfig
from trainer.imitation.courses import get_expert
from trainer.imitation.demonstration_files import NoSolverError
from trainer.imitation.demonstrations import Demonstration, demonstrate
from trainer.imitation.warmup import learning_rate
from trainer.learner.groups.learner_group import ImitatorGroup
from trainer.learner.optimizers import lr_factor
from trainer.loops.session import RunSession
from trainer.loops.stages.checkpointer import Checkpointer
from trainer.loops.stages.policy_setup import PolicySetup
from trainer.loops.stages.rollout_stage import RolloutStage
from trainer.loops.stages.suite_evaluation import SuiteEvaluator
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.environment_mix import get_shares, interleave
from trainer.rollout.trajectory import Trajectory, collate
from trainer.seeds import Purpose, derive

_MAX_FIRST_MISSES = 100  # limit of initial states before the first usable demonstration
_MAX_MISSES_PER_DEMONSTRATION = 50  # further initial states for each usable demonstration
MAX_SOLUTION_LENGTH = 100
"""Maximum actions of a demonstrated solution, as the solver estimates it at the start (paper, appendix C)."""


class ImitationStage:
    """Steps on the demonstrations of a run, one for each iteration after `first` up to `last`.

    The steps of a warm-up end at iteration 0, so that their numbers are negative.

    Args:
        session: the resumed run.
        setup: its policy; the solver's play is encoded for it.
        imitators: take the steps; they receive the state of a checkpoint later.
    """

    def __init__(self, session: RunSession, setup: PolicySetup, imitators: ImitatorGroup) -> None:
        config = session.config
        self.session, self.imitators, self.pad_id = session, imitators, setup.policy.pad_id
        self.first = -config.warmup_steps
        self.last = config.iterations if config.kind == "sft" else 0
        played = _play_solver(session, setup)
        # The first ones are held out, so that the validation set does not depend on the number of demonstrations.
        held_out = config.sft.held_out
        self.held_out = collate(played[:held_out], self.pad_id)
        self.taught = played[held_out:]
        self.environments = np.array([trajectory.environment for trajectory in self.taught])
        self.steps_per_epoch = -(-len(self.taught) // config.sft.batch)

    def run(self, rollouts: RolloutStage, evaluator: SuiteEvaluator, checkpointer: Checkpointer) -> None:
        """Take all remaining steps, and the evaluations and checkpoints due between them."""
        session, progress, timer = self.session, self.session.progress, self.session.timer
        if progress.iteration == self.first:
            session.journal.write(session.reporter.metrics(self.imitators.measure(self.held_out)))
        if evaluator.is_overdue():
            evaluator.run()
            checkpointer.save_evaluated()
        timer.start(progress.checkpoint_seconds)
        while progress.iteration < self.last:
            session.check_stop()
            with timer.phase("warmup") if session.config.warmup_steps else timer.phase("update"):
                metrics = self._step(progress.iteration + 1)
                rollouts.update_weights(self.imitators)
            progress.iteration += 1
            metrics |= timer.finish() | session.system.collect()
            session.journal.write(session.reporter.metrics(metrics))
            if progress.iteration == 0:
                return  # the training that follows evaluates and saves the warmed-up policy
            if evaluator.is_due():
                with timer.phase("evaluate"):
                    evaluator.run()
            if checkpointer.is_due():
                with timer.phase("checkpoint"):
                    checkpointer.save()

    def _step(self, iteration: int) -> dict[str, float]:
        """Take one step on the next batch of demonstrations; each is used once before any is repeated."""
        config, number = self.session.config, iteration - self.first - 1
        size, steps = config.sft.batch, self.steps_per_epoch
        epoch, step = divmod(number, steps)
        if config.kind == "sft":
            factor = lr_factor(config.optimizer, iteration, config.iterations)
            report = self.session.reporter.watch_imitation(iteration, step, steps)
        else:
            factor = learning_rate(number, config.warmup_steps, 1.0)
            report = self.session.reporter.watch_warmup(number, config.warmup_steps)
        self.imitators.report_to(report)
        generator = torch.Generator().manual_seed(derive(config.seed, Purpose.UPDATE, epoch))
        order = epoch_order(self.environments, generator)[step * size : (step + 1) * size]
        batch = collate([self.taught[index] for index in order], self.pad_id)
        metrics = self.imitators.imitate(batch, factor)
        if step + 1 == steps or iteration == self.last:
            metrics |= self.imitators.measure(self.held_out)
        self.session.progress.tokens += int(batch.mask.sum())
        return metrics | {"sft/epoch": (number + 1) / steps}


def _play_solver(session: RunSession, setup: PolicySetup) -> list[Trajectory]:
    """Return the demonstrations of the run, including held-out ones."""
    settings = session.config.sft
    total = settings.held_out + settings.demonstrations
    played: list[Trajectory] = []
    for trajectory in demonstrations(session.config, setup.chat, setup.policy.context):
        played.append(trajectory)
        session.reporter.phase("warmup", len(played), total, unit="demonstrations")
        session.check_stop()
        if len(played) == total:
            break
    return played


def demonstrations(config: RunConfig, chat: ChatFormat, context: int) -> Iterator[Trajectory]:
    """Yield endless plain solver play in the environments of the run and of `sft.mix`, in exactly their shares.

    The n-th demonstration is always the same.

    Raises:
        NoSolverError: too many initial states of an environment have no usable demonstration.
    """
    tasks = get_shares(config.for_demonstrations())
    starts, used = [0] * len(tasks), [0] * len(tasks)
    seeds = (derive(config.seed, Purpose.DEMONSTRATION, number) for number in count())
    for index in interleave([task.share for task in tasks]):
        task = tasks[index]
        demonstration = None
        while demonstration is None or not is_usable(demonstration):
            if starts[index] - used[index] > _MAX_FIRST_MISSES + _MAX_MISSES_PER_DEMONSTRATION * used[index]:
                raise NoSolverError(
                    f"{task.name} gives too few demonstrations: {used[index]} of {starts[index]} starts had a "
                    f"solution of at most {MAX_SOLUTION_LENGTH} actions that succeeded"
                )
            seed = next(seeds)
            starts[index] += 1
            demonstration = demonstrate(
                task.config,
                chat,
                seed,
                noise=0.0,
                mistake_rate=0.0,
                context=context,
                demonstrator=get_expert(task.config, seed),
            )
        used[index] += 1
        demonstration.trajectory.environment = task.number
        yield demonstration.trajectory


def epoch_order(environments: np.ndarray, generator: torch.Generator) -> np.ndarray:
    """Return the demonstrations in the order of an epoch, shuffled only within each environment.

    The sequence of environments is kept, so that every batch has the mixture's shares.

    Args:
        environments: [demonstrations] environment number of each demonstration.
        generator: source of the order.
    Returns:
        [demonstrations] indices.
    """
    shuffled = torch.randperm(len(environments), generator=generator).numpy()
    order = np.empty_like(shuffled)
    for environment in np.unique(environments):
        order[environments == environment] = shuffled[environments[shuffled] == environment]
    return order


def is_usable(demonstration: Demonstration) -> bool:
    """True if a demonstration has turns, is short enough, and is successful."""
    trajectory = demonstration.trajectory
    if not trajectory.turns:
        return False
    hint = trajectory.turns[0].hint
    distance = hint.distance if hint is not None else None
    return trajectory.success and (distance is None or distance <= MAX_SOLUTION_LENGTH)
