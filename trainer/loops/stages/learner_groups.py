"""The learners of a run: in the main process, or Ray actors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.config.run import RunConfig
from trainer.learner.groups.imitator import Imitator
from trainer.learner.groups.learner_group import ImitatorGroup, LearnerGroup
from trainer.learner.learner import Learner
from trainer.loops.session import RunSession
from trainer.loops.stages.cluster_setup import ClusterSetup
from trainer.loops.stages.policy_setup import PolicySetup
from trainer.policy.load import load

if TYPE_CHECKING:
    from trainer.cluster.ray_learner_group import RayLearnerGroup


def make_learners(session: RunSession, setup: PolicySetup) -> LearnerGroup:
    """Create the learners of a run, before they receive the state of a checkpoint; closed with the session."""
    if setup.cluster is not None and setup.cluster.learners:
        return _ray_learners(session, setup.cluster, session.config)
    reference = None if setup.reference is None else load(setup.reference, session.config.policy)
    learner = Learner(session.config, setup.policy, reference)
    session.on_close(learner.close)
    return learner


def make_imitators(session: RunSession, setup: PolicySetup) -> ImitatorGroup:
    """Create the learners of a run that imitates demonstrations, or of a training run's warm-up."""
    if setup.cluster is not None and setup.cluster.learners:
        return _ray_learners(session, setup.cluster, session.config.model_copy(update={"kind": "sft"}))
    imitator = Imitator(session.config, setup.policy)
    session.on_close(imitator.close)
    return imitator


def _ray_learners(session: RunSession, cluster: ClusterSetup, config: RunConfig) -> RayLearnerGroup:
    from trainer.cluster.ray_learner_group import RayLearnerGroup

    learners = RayLearnerGroup(
        config, cluster.files, cluster.reference, cluster.connection, cluster.learners, stop=session.stop
    )
    session.on_close(learners.close)
    return learners
