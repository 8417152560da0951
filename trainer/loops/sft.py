"""SFT baseline: imitates a solver's play, one optimiser step per iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import torch

from trainer.config.run import RunConfig
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.imitation.courses import expert_of
from trainer.imitation.demonstration_files import NoSolverError
from trainer.imitation.demonstrations import Demonstration, demonstrate
from trainer.learner.groups.learner_group import ImitatorGroup
from trainer.loops.session import RunSession
from trainer.loops.stages.checkpointer import Checkpointer
from trainer.loops.stages.learner_groups import make_imitators
from trainer.loops.stages.policy_setup import PolicySetup, load_policy
from trainer.loops.stages.pools import make_pool
from trainer.loops.stages.rollout_stage import RolloutStage
from trainer.loops.stages.suite_evaluation import SuiteEvaluator
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.environment_mix import shares_of
from trainer.rollout.trajectory import Batch, Trajectory, collate
from trainer.seeds import Purpose, derive

_MAX_FIRST_MISSES = 100  # initial states without a usable demonstration before the first one
_MAX_MISSES_PER_DEMONSTRATION = 50  # further ones for each that was found


def sft(session: RunSession) -> None:
    """Imitate until all iterations are done."""
    session.resume()
    config, progress, timer = session.config, session.progress, session.timer
    setup = load_policy(session)
    pad_id = setup.policy.pad_id
    played = _play_solver(session, setup)
    # The first ones are held out, so that asking for more demonstrations does not change the validation set.
    validation, lessons = played[: config.sft.validation_demonstrations], played[config.sft.validation_demonstrations :]
    held_out = collate(validation, pad_id) if validation else None
    imitators = make_imitators(session, setup)
    checkpointer = Checkpointer(session, imitators, EchoTrap(config.echo_trap))
    rollouts = RolloutStage(session, make_pool(session, setup, imitators), setup.chat)
    evaluator = SuiteEvaluator(session, rollouts)
    session.started(rollouts.pool.device, setup.policy.parameters)

    if progress.iteration == 0 and held_out is not None:
        session.journal.write(session.reporter.metrics(imitators.measure(held_out)))
    if evaluator.is_overdue():
        evaluator.run()
        checkpointer.save_evaluated()
    checkpointer.save_initial()
    timer.start(progress.checkpoint_seconds)
    while progress.iteration < config.iterations:
        session.check_stop()
        iteration = progress.iteration + 1
        with timer.phase("update"):
            batch, metrics = _imitate(session, imitators, pad_id, lessons, held_out, iteration)
            rollouts.update_weights(imitators)
        progress.iteration = iteration
        progress.tokens += int(batch.mask.sum())
        metrics |= timer.finish() | session.system.collect()
        metrics["sft/epoch"] = iteration / _steps_per_epoch(config, lessons)
        session.journal.write(session.reporter.metrics(metrics))
        if evaluator.is_due():
            with timer.phase("evaluate"):
                evaluator.run()
        if checkpointer.is_due():
            with timer.phase("checkpoint"):
                checkpointer.save()
    session.finish("completed", f"All {config.iterations} iterations are done.")


def _imitate(
    session: RunSession,
    imitators: ImitatorGroup,
    pad_id: int,
    lessons: Sequence[Trajectory],
    held_out: Batch | None,
    iteration: int,
) -> tuple[Batch, dict[str, float]]:
    """One step on the next batch of demonstrations; each is used once before any is repeated."""
    config = session.config
    size, steps = config.sft.batch, _steps_per_epoch(config, lessons)
    epoch, step = divmod(iteration - 1, steps)
    imitators.report_to(session.reporter.watch_imitation(iteration, step, steps))
    generator = torch.Generator().manual_seed(derive(config.seed, Purpose.UPDATE, epoch))
    order = torch.randperm(len(lessons), generator=generator)[step * size : (step + 1) * size]
    batch = collate([lessons[number] for number in order], pad_id)
    metrics = imitators.imitate(batch, derive(config.seed, Purpose.UPDATE, epoch, step))
    if held_out is not None and (step + 1 == steps or iteration == config.iterations):
        metrics |= imitators.measure(held_out)
    return batch, metrics


def _steps_per_epoch(config: RunConfig, lessons: Sequence[Trajectory]) -> int:
    return -(-len(lessons) // config.sft.batch)


def _play_solver(session: RunSession, setup: PolicySetup) -> list[Trajectory]:
    """The demonstrations of the run, held-out ones included."""
    settings = session.config.sft
    total = settings.validation_demonstrations + settings.demonstrations
    played: list[Trajectory] = []
    for trajectory in demonstrations(session.config, setup.chat, setup.policy.context):
        played.append(trajectory)
        session.reporter.phase("warmup", len(played), total, unit="demonstrations")
        session.check_stop()
        if len(played) == total:
            break
    return played


def demonstrations(config: RunConfig, chat: ChatFormat, context: int) -> Iterator[Trajectory]:
    """Endless plain solver play in the environments of the run, in their shares; the n-th is always the same.

    Raises:
        NoSolverError: too many initial states have no usable demonstration.
    """
    tasks = shares_of(config)
    ends = np.cumsum([task.share for task in tasks])
    yielded = 0
    for number in count():
        seed = derive(config.seed, Purpose.DEMONSTRATION, number)
        position = np.random.default_rng(seed).random() * ends[-1]
        task = tasks[min(int(np.searchsorted(ends, position, side="right")), len(tasks) - 1)]
        demonstration = demonstrate(
            task.config,
            chat,
            seed,
            noise=0.0,
            mistake_rate=0.0,
            context=context,
            demonstrator=expert_of(task.config, seed),
        )
        if is_usable(demonstration, task.config):
            yielded += 1
            yield demonstration.trajectory
        elif number >= _MAX_FIRST_MISSES + _MAX_MISSES_PER_DEMONSTRATION * yielded:
            raise NoSolverError(
                f"{config.environment.name} gives too few demonstrations: {yielded} of {number + 1} starts had a "
                f"solution of at most {config.sft.max_solution_length} actions"
                + (" that succeeded" if config.sft.only_successes else "")
            )


def is_usable(demonstration: Demonstration, config: RunConfig) -> bool:
    """Whether a demonstration is used: it has turns, is short enough, and successful if that is required."""
    trajectory = demonstration.trajectory
    if not trajectory.turns:
        return False
    hint = trajectory.turns[0].hint
    distance = hint.distance if hint is not None else None
    short = distance is None or distance <= config.sft.max_solution_length
    return short and (trajectory.success or not config.sft.only_successes)
