"""The rollout pool of a run."""

from __future__ import annotations

from functools import partial

from trainer.engines.sampler import Sampler
from trainer.engines.sampler_factory import in_chunks, make_sampler
from trainer.loops.session import RunSession
from trainer.loops.stages.cluster_setup import ClusterSetup
from trainer.loops.stages.policy_setup import PolicySetup
from trainer.metrics.timeline import PLAYER
from trainer.policy import lora_adapters
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import describe_device
from trainer.rollout.rollout_pool import LocalRolloutPool, RolloutPool, WeightSource
from trainer.rollout.runner import RolloutRunner
from trainer.rollout.token_stream import TokenStream, TokenStreamListener


def make_pool(session: RunSession, setup: PolicySetup, learners: WeightSource | None = None) -> RolloutPool:
    """Create the pool of a run: in this process, or of Ray actors.

    Args:
        learners: learners with the state of the newest checkpoint; None: the run trains nothing.
    """
    config, policy = session.config, setup.policy
    if setup.cluster is not None and setup.cluster.rollouts:
        return _ray_pool(session, setup.cluster, learners)
    if setup.cluster is None or learners is None:
        return _engine_here(session, setup)
    if config.lora.rank:
        lora_adapters.attach_all(policy.model, None, config.lora, config.seed)
    pool = _engine_here(session, setup)
    pool.copy = policy.model  # the learners have a separate model
    pool.update_weights(learners)
    return pool


def _engine_here(session: RunSession, setup: PolicySetup) -> LocalRolloutPool:
    policy = setup.policy
    sampler = make_sampler(session.config, policy, setup.chat.eos_id, session.folder, setup.chat.end_ids)
    sampler = in_chunks(sampler, setup.plan.rows, session.warn)
    return local_pool(session, sampler, setup.chat, policy.context, describe_device(policy.model.device))


def _ray_pool(session: RunSession, cluster: ClusterSetup, learners: WeightSource | None) -> RolloutPool:
    from trainer.cluster.ray_rollout_pool import RayRolloutPool

    adapted = session.config.lora.rank > 0  # the policy's files contain the base model
    return RayRolloutPool(
        session.config,
        cluster.files,
        cluster.connection,
        cluster.rollouts,
        first=len(cluster.learners),
        rows=cluster.plan.rows,
        weights=learners.weights() if learners is not None and adapted else None,
        emit=session.journal.write,
        stop=session.stop,
        notify=session.warn,
        stream=TokenStream(session.folder),
        timeline=session.timeline,
    )


def local_pool(session: RunSession, sampler: Sampler, chat: ChatFormat, context: int, device: str) -> LocalRolloutPool:
    """Create a pool in this process.

    Args:
        sampler: the engine.
        context: context length in tokens.
        device: description of the engine's device.
    """
    runner = RolloutRunner(
        config=session.config,
        chat=chat,
        sampler=sampler,
        context=context,
        emit=session.journal.write,
        stop=session.stop,
        on_work=lambda kind, began, ended: session.timeline.add(PLAYER, began, ended, kind),
    )
    return LocalRolloutPool(
        runner,
        partial(TokenStreamListener, TokenStream(session.folder), chat),
        groups_per_session=session.config.rollout.groups_per_session,
        device=device,
    )
