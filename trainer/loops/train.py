"""StarPO training loop: rollout, filter, update, evaluate, checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from trainer.config.algorithm import AlgorithmConfig
from trainer.diagnostics import reasoning
from trainer.diagnostics.compute import filter_metrics, rollout_metrics, sampling_metrics
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.diagnostics.format_faults import common_fault
from trainer.diagnostics.run_faults import RunFaults
from trainer.diagnostics.skipped_updates import skipped_update_notice
from trainer.journal.events import Alarm, GroupsScored, UpdateSkipped
from trainer.learner.attempts_used import attempts_used, use_metrics
from trainer.learner.batch_selection import BatchSelection, select_batch
from trainer.learner.groups.learner_group import LearnerGroup
from trainer.learner.learnt_tokens import LearntBatch
from trainer.learner.token_recorder import retokenised_share
from trainer.loops.session import RunSession
from trainer.loops.sft import warm_up
from trainer.loops.stages import manual_rewinds, setting_changes
from trainer.loops.stages.checkpointer import Checkpointer
from trainer.loops.stages.learner_groups import make_learners
from trainer.loops.stages.policy_setup import load_policy
from trainer.loops.stages.pools import make_pool
from trainer.loops.stages.rollout_stage import RolloutStage
from trainer.loops.stages.rollouts_ahead import staleness
from trainer.loops.stages.suite_evaluation import SuiteEvaluator
from trainer.loops.stages.timeline_stage import update_stages, write_timeline
from trainer.metrics.reasoning_table import ANY_TURN, FIRST_TURN
from trainer.metrics.timeline import LEARNER, TRAINER
from trainer.rollout.environment_mix import get_shares, success_by_environment
from trainer.rollout.trajectory import Batch, Trajectory, collate
from trainer.seeds import Purpose, derive

TURN_THOUGHTS_EVERY = 5
"""Iterations between measurements of reasoning_turns/*, besides the first one. Source: RAGEN-2."""
MOST_SKIPPED = 5
"""Iterations in a row without an update after which echo_trap.action=stop ends a run. Source: RAGEN-2."""
TURN_THOUGHTS = 8
"""Thoughts that a measurement compares; RAGEN-2: 64. The policy reads their square: each thought after each prompt."""


def train(session: RunSession) -> None:
    """Train until all iterations are done, the Echo Trap detector or a lack of updates ends the run.

    Each rewind and each change of settings begins a new attempt.
    """
    while session.end is None:
        _attempt(session)


def _attempt(session: RunSession) -> None:
    """Train from the newest checkpoint to the end of the run, to a rewind, or to a change of settings.

    A run with steps on demonstrations takes them first.
    """
    session.resume()
    warms_up = session.progress.iteration < 0
    if warms_up:
        warm_up(session)
    progress, timer = session.progress, session.timer
    with session.timeline.span(TRAINER, "load"):
        setup = load_policy(session, with_reference=True)
        learners = make_learners(session, setup)
        trap = EchoTrap()
        trap.load_state_dict(progress.echo_trap)
        checkpointer = Checkpointer(session, learners, trap)
        rollouts = RolloutStage(session, make_pool(session, setup, learners), setup.chat)
    evaluator = SuiteEvaluator(session, rollouts)
    if warms_up:
        checkpointer.save()  # right away, so that the warm-up is not repeated
    else:
        session.started(rollouts.pool.device, setup.policy.parameters)

    if evaluator.is_overdue():
        with session.timeline.span(TRAINER, "evaluate"):
            evaluator.run()
        checkpointer.save_evaluated()
    checkpointer.save_initial()
    timer.start(progress.checkpoint_seconds)
    write_timeline(session, "start")
    with rollouts.ahead.until_done() if rollouts.ahead else nullcontext():
        _iterate(session, setup.policy.pad_id, learners, rollouts, evaluator, checkpointer)


def _iterate(
    session: RunSession,
    pad_id: int,
    learners: LearnerGroup,
    rollouts: RolloutStage,
    evaluator: SuiteEvaluator,
    checkpointer: Checkpointer,
) -> None:
    """Iterate to the end of the run, to a rewind after a collapse or by hand, or to a change of settings."""
    config, progress, timer, trap = session.config, session.progress, session.timer, checkpointer.trap
    faults = RunFaults(config.rollout.max_staleness)
    faults.load_state_dict(progress.echo_trap.get("faults", {}))
    if session.attempt > 1 and faults.present:
        session.journal.write(faults.event(progress.iteration))
    while progress.iteration < config.iterations:
        session.check_stop()
        if _begins_anew(session, checkpointer):
            return None
        if config.echo_trap.action == "stop" and progress.skipped_updates >= MOST_SKIPPED:
            return _stop_without_updates(session, evaluator, checkpointer)
        iteration = progress.iteration + 1
        with timer.phase("rollout"):
            trajectories = rollouts.play(iteration)
        metrics = _learn(session, pad_id, learners, rollouts, iteration, trajectories)
        alarm = _record(session, trap, faults, iteration, trajectories, metrics)
        collapsed = alarm is not None and alarm.state == "trapped"
        if collapsed and checkpointer.may_rewind():
            if rollouts.ahead:
                rollouts.ahead.abandon()
            return checkpointer.rewind()
        stops = collapsed and config.echo_trap.action != "none"
        if evaluator.is_due() or (stops and config.evaluation.prompts):
            with timer.phase("evaluate"):
                evaluator.run()
        if checkpointer.is_due() or stops:
            with timer.phase("checkpoint"):
                checkpointer.save()
        write_timeline(session)
        if stops:
            rewinds = f", after {progress.rewinds} rewinds" if config.echo_trap.action == "rewind" else ""
            message = f"Stopped by the Echo Trap detector after iteration {progress.iteration}{rewinds}."
            return session.finish("echo_trap", message)
    return session.finish("completed", f"All {config.iterations} iterations are done.")


def _begins_anew(session: RunSession, checkpointer: Checkpointer) -> bool:
    """Rewind the run, or save it for other settings, if that is due. Returns True if another attempt follows."""
    if (asked := manual_rewinds.find_due(session)) is not None:
        checkpointer.rewind(asked)
        return True
    if setting_changes.are_due(session):
        checkpointer.save()
        session.release()
        return True
    return False


def _learn(
    session: RunSession,
    pad_id: int,
    learners: LearnerGroup,
    rollouts: RolloutStage,
    iteration: int,
    trajectories: list[Trajectory],
) -> dict[str, float]:
    """Update the policy with these trajectories, unless they teach nothing. Returns the metrics of the iteration."""
    config, progress = session.config, session.progress
    complete = rollouts.complete(trajectories)
    selection = select_batch(complete, config.algorithm)
    session.journal.write(GroupsScored(iteration=iteration, groups=selection.scores))
    batch = make_batch(selection, pad_id, config.algorithm) if selection.teaches else None
    with (
        session.timer.phase("update"),
        update_stages(session, session.reporter.watch_update(iteration)) as report,
    ):
        learners.report_to(rollouts.ahead.pumping(report) if rollouts.ahead else report)
        metrics = _rollout_metrics(session, trajectories, complete, selection, learners)
        stale = staleness(complete, learners.version)
        metrics |= stale if rollouts.ahead or any(stale.values()) else {}
        metrics |= sampling_metrics(rollouts.rounds, selection.scores) if rollouts.resamples else {}
        metrics["rollout/repeated_groups"] = rollouts.repeated_share
        if batch is None:
            metrics |= _skip(session, selection, iteration, complete, metrics)
        else:
            metrics |= learners.update(batch, iteration)
            with session.timeline.span(LEARNER, "weights"):
                rollouts.update_weights(learners)
    progress.skipped_updates = progress.skipped_updates + 1 if batch is None else 0
    learnt = None
    if batch is not None and learners.learnt is not None:
        learnt = LearntBatch(batch, learners.learnt)
    tokens = list(rollouts.recorder.learned(trajectories, selection.kept, learnt))
    session.journal.write(*tokens)
    metrics |= retokenised_share(tokens)
    used = attempts_used(iteration, trajectories, selection, learnt, rollouts.replaced)
    session.journal.write(used)
    metrics |= use_metrics(used)
    metrics |= rollouts.usage()
    return metrics


def _skip(
    session: RunSession,
    selection: BatchSelection,
    iteration: int,
    complete: Sequence[Trajectory],
    metrics: Mapping[str, float],
) -> dict[str, float]:
    """Record that an iteration has no update: weights, moments and step counts of the optimisers do not change.

    The run's first skipped update is explained.
    """
    assert selection.skipped is not None
    consecutive = session.progress.skipped_updates + 1
    session.journal.write(UpdateSkipped(iteration=iteration, reason=selection.skipped, consecutive=consecutive))
    if not session.progress.explained_skip:
        session.progress.explained_skip = True
        session.warn(skipped_update_notice(iteration, selection.skipped, complete, metrics))
    return {"update/skipped": 1.0, "update/skipped_in_a_row": float(consecutive)}


def _stop_without_updates(session: RunSession, evaluator: SuiteEvaluator, checkpointer: Checkpointer) -> None:
    """End the run after its last evaluation and checkpoint: too many consecutive iterations had no update."""
    progress = session.progress
    if session.config.evaluation.prompts and progress.evaluated < progress.iteration:
        with session.timer.phase("evaluate"):
            evaluator.run()
    checkpointer.save()
    session.finish(
        "no_signal",
        f"Stopped after iteration {progress.iteration}: no group had a learning signal in "
        f"{progress.skipped_updates} iterations in a row (echo_trap.action).",
    )


def make_batch(selection: BatchSelection, pad_id: int, algorithm: AlgorithmConfig) -> Batch:
    """Build the batch of an update: the trajectories kept by the filter, with their weights."""
    outcome = algorithm.reward_position == "outcome"
    return collate(selection.kept, pad_id, outcome=outcome, weights=selection.weights)


def _rollout_metrics(
    session: RunSession,
    trajectories: Sequence[Trajectory],
    complete: Sequence[Trajectory],
    selection: BatchSelection,
    learners: LearnerGroup,
) -> dict[str, float]:
    """Return the metrics of an iteration that are known before its update."""
    metrics = rollout_metrics(complete) | filter_metrics(selection.filtered)
    metrics |= _reasoning_metrics(session, complete, learners)
    metrics |= success_by_environment(complete, get_shares(session.config))
    return metrics | {"rollout/failed_environments": float(len(trajectories) - len(complete))}


def _reasoning_metrics(session: RunSession, complete: Sequence[Trajectory], learners: LearnerGroup) -> dict[str, float]:
    """Compute reasoning/* of first turns, and at intervals reasoning_turns/* of a few thoughts of any turn."""
    averages, iteration = session.progress.marginal_stds, session.progress.iteration + 1
    seed = derive(session.config.seed, Purpose.DIAGNOSTICS, iteration)
    due = iteration == 1 or iteration % TURN_THOUGHTS_EVERY == 0
    samples = {
        FIRST_TURN: reasoning.first_thoughts(complete),
        ANY_TURN: reasoning.turn_thoughts(complete, TURN_THOUGHTS, seed) if due else None,
    }
    total = sum(len(pairs[1]) for pairs in samples.values() if pairs)
    metrics: dict[str, float] = {}
    done = 0
    for family, pairs in samples.items():
        if pairs:
            lengths = [len(thought) for thought in pairs[1]]
            scores = learners.cross_scores(*pairs, done, total - done - len(lengths))
            metrics |= reasoning.reasoning_metrics(scores, lengths, averages, family)
            done += len(lengths)
    return metrics


def _record(
    session: RunSession,
    trap: EchoTrap,
    faults: RunFaults,
    iteration: int,
    trajectories: Sequence[Trajectory],
    metrics: dict[str, float],
) -> Alarm | None:
    """Write the metrics of a finished iteration. Returns the alarm if the detector's state changed."""
    tokens = sum(trajectory.tokens for trajectory in trajectories)
    session.progress.iteration = iteration
    session.progress.tokens += tokens
    metrics |= session.timer.finish()
    overlap = metrics.get("time/update", 0.0) if session.config.rollout.max_staleness else 0.0
    metrics["throughput/tokens_per_second"] = tokens / (metrics["time/rollout"] + overlap)
    alarm = trap.update(iteration, metrics, common_fault(trajectories))
    metrics |= trap.statistics()
    metrics |= session.system.collect()
    changed = faults.update(iteration, metrics)
    session.progress.echo_trap = trap.state_dict() | {"faults": faults.state_dict()}
    events = (session.reporter.metrics(metrics), alarm, changed)
    session.journal.write(*(event for event in events if event is not None))
    return alarm
