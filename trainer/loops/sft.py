"""SFT baseline: imitates a solver's play, one optimiser step per iteration."""

from __future__ import annotations

from trainer.diagnostics.echo_trap import EchoTrap
from trainer.learner.groups.learner_group import ImitatorGroup
from trainer.loops.session import RunSession
from trainer.loops.stages import checkpoints
from trainer.loops.stages.checkpointer import Checkpointer
from trainer.loops.stages.imitation_stage import ImitationStage
from trainer.loops.stages.learner_groups import make_imitators
from trainer.loops.stages.policy_setup import load_policy
from trainer.loops.stages.pools import make_pool
from trainer.loops.stages.rollout_stage import RolloutStage
from trainer.loops.stages.suite_evaluation import SuiteEvaluator


def sft(session: RunSession) -> None:
    """Imitate until all iterations are done."""
    session.resume()
    imitate(session)
    session.finish("completed", f"All {session.config.iterations} iterations are done.")


def warm_up(session: RunSession) -> None:
    """Take the remaining steps of a training run's warm-up and keep the policy for the training that follows.

    Optimiser moments are discarded after the warm-up: training begins as it does from any other policy.
    """
    imitators = imitate(session)
    checkpoints.save_warmed_up(session.folder, imitators)
    session.release()
    session.checkpoint = None


def imitate(session: RunSession) -> ImitatorGroup:
    """Take the remaining steps on demonstrations in a resumed session. Returns the imitators."""
    setup = load_policy(session)
    imitators = make_imitators(session, setup)
    stage = ImitationStage(session, setup, imitators)
    checkpointer = Checkpointer(session, imitators, EchoTrap())
    rollouts = RolloutStage(session, make_pool(session, setup, imitators), setup.chat)
    session.started(rollouts.pool.device, setup.policy.parameters)
    stage.run(rollouts, SuiteEvaluator(session, rollouts), checkpointer)
    return imitators
