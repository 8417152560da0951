"""StarPO training loop: rollout, filter, update, evaluate, checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.config.run import AlgorithmConfig
from trainer.diagnostics.compute import filter_metrics, first_thoughts, reasoning_metrics, rollout_metrics
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.journal.events import Alarm, GroupsScored
from trainer.learner.batch_selection import BatchSelection, select_batch
from trainer.learner.learner import Learner
from trainer.loops.session import RunSession
from trainer.loops.stages.checkpointer import Checkpointer
from trainer.loops.stages.policy_setup import PolicySetup, load_policy, local_actor
from trainer.loops.stages.rollout_stage import RolloutStage
from trainer.loops.stages.suite_evaluation import SuiteEvaluator
from trainer.policy.load import load
from trainer.rollout.environment_mix import shares_of, success_by_environment
from trainer.rollout.trajectory import Batch, Trajectory, collate


def train(session: RunSession) -> None:
    """Train until all iterations are done or the Echo Trap detector ends the run; each rewind is a new attempt."""
    while session.end is None:
        _attempt(session)


def _attempt(session: RunSession) -> None:
    """Train from the newest checkpoint to the end of the run, or to a collapse from which it rewinds."""
    session.resume()
    config, progress, timer = session.config, session.progress, session.timer
    setup = load_policy(session, with_reference=True)
    learner = make_learner(session, setup)
    trap = EchoTrap(config.echo_trap)
    trap.load_state_dict(progress.echo_trap)
    checkpointer = Checkpointer(session, learner, trap)
    actor = local_actor(session, setup)
    rollouts = RolloutStage(session, actor, setup.chat)
    evaluator = SuiteEvaluator(session, rollouts)
    session.started(actor)

    if evaluator.is_overdue():
        evaluator.run()
        checkpointer.save_evaluated()
    checkpointer.save_initial()
    timer.start(progress.checkpoint_seconds)
    while progress.iteration < config.iterations:
        session.check_stop()
        with session.reporter.timed_iteration():
            iteration = progress.iteration + 1
            with timer.phase("rollout"):
                trajectories = rollouts.play(iteration)
            complete = rollouts.complete(trajectories)
            selection = select_batch(complete, config.algorithm)
            session.journal.write(GroupsScored(iteration=iteration, groups=selection.scores))
            with timer.phase("update"):
                session.reporter.phase("update", 0, len(selection.kept), unit="trajectories", iteration=iteration)
                batch = make_batch(selection, learner.policy.pad_id, config.algorithm)
                metrics = _rollout_metrics(session, trajectories, complete, selection, learner)
                metrics |= learner.update(batch, iteration) if selection.teaches else {"update/skipped": 1.0}
                rollouts.weights_updated()
            advantages = learner.advantages if selection.teaches else None
            session.journal.write(*rollouts.recorder.learned(trajectories, selection.kept, batch, advantages))
            alarm = _record(session, trap, iteration, trajectories, metrics)
        collapsed = alarm is not None and alarm.state == "trapped"
        if collapsed and checkpointer.may_rewind():
            return checkpointer.rewind()
        stops = collapsed and config.echo_trap.action != "none"
        if evaluator.is_due() or (stops and config.evaluation.prompts):
            with timer.phase("evaluate"):
                evaluator.run()
        if checkpointer.is_due() or stops:
            with timer.phase("checkpoint"):
                checkpointer.save()
        if stops:
            rewinds = f", after {progress.rewinds} rewinds" if config.echo_trap.action == "rewind" else ""
            message = f"Stopped by the Echo Trap detector after iteration {progress.iteration}{rewinds}."
            return session.finish("echo_trap", message)
    return session.finish("completed", f"All {config.iterations} iterations are done.")


def make_learner(session: RunSession, setup: PolicySetup) -> Learner:
    """The learner of a run, before it receives the state of a checkpoint."""
    reference = None if setup.reference is None else load(setup.reference, session.config.policy)
    return Learner(session.config, setup.policy, reference, session.group)


def make_batch(selection: BatchSelection, pad_id: int, algorithm: AlgorithmConfig) -> Batch:
    """The batch of an update: the trajectories kept by the filter, with their weights."""
    outcome = algorithm.reward_position == "outcome"
    return collate(selection.kept, pad_id, outcome=outcome, weights=selection.weights)


def _rollout_metrics(
    session: RunSession,
    trajectories: Sequence[Trajectory],
    complete: Sequence[Trajectory],
    selection: BatchSelection,
    learner: Learner,
) -> dict[str, float]:
    """Metrics of an iteration that are known before its update."""
    metrics = rollout_metrics(complete) | filter_metrics(selection.filtered)
    if thoughts := first_thoughts(complete):
        metrics |= reasoning_metrics(learner.cross_scores(*thoughts))
    metrics |= success_by_environment(complete, shares_of(session.config))
    return metrics | {"rollout/failed_environments": float(len(trajectories) - len(complete))}


def _record(
    session: RunSession,
    trap: EchoTrap,
    iteration: int,
    trajectories: Sequence[Trajectory],
    metrics: dict[str, float],
) -> Alarm | None:
    """Write the metrics of a finished iteration. Returns the alarm if the detector's state changed."""
    tokens = sum(trajectory.tokens for trajectory in trajectories)
    session.progress.iteration = iteration
    session.progress.tokens += tokens
    metrics |= session.timer.finish()
    metrics["throughput/tokens_per_second"] = tokens / metrics["time/rollout"]
    alarm = trap.update(iteration, metrics)
    metrics |= trap.statistics()
    session.progress.echo_trap = trap.state_dict()
    session.journal.write(session.reporter.metrics(metrics), *([alarm] if alarm else []))
    return alarm
