"""The learners of a run."""

from __future__ import annotations

from trainer.learner.groups.imitator import Imitator
from trainer.learner.groups.learner_group import ImitatorGroup, LearnerGroup
from trainer.learner.learner import Learner
from trainer.loops.session import RunSession
from trainer.loops.stages.policy_setup import PolicySetup
from trainer.policy.load import load


def make_learners(session: RunSession, setup: PolicySetup) -> LearnerGroup:
    """The learners of a run, before they receive the state of a checkpoint; closed with the session."""
    reference = None if setup.reference is None else load(setup.reference, session.config.policy)
    learner = Learner(session.config, setup.policy, reference, session.group)
    session.on_close(learner.close)
    return learner


def make_imitators(session: RunSession, setup: PolicySetup) -> ImitatorGroup:
    """The same of a run that imitates demonstrations."""
    imitator = Imitator(session.config, setup.policy, session.group)
    session.on_close(imitator.close)
    return imitator
