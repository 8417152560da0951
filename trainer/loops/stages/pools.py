"""The rollout pool of a run."""

from __future__ import annotations

from functools import partial

from trainer.engines.sampler import Sampler
from trainer.engines.sampler_factory import in_chunks, make_sampler
from trainer.loops.session import RunSession
from trainer.loops.stages.policy_setup import PolicySetup
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import describe_device
from trainer.rollout import distributed
from trainer.rollout.rollout_pool import LocalRolloutPool, RolloutPool
from trainer.rollout.runner import RolloutRunner
from trainer.rollout.token_stream import TokenStream, TokenStreamListener


def make_pool(session: RunSession, setup: PolicySetup) -> RolloutPool:
    """The pool of a run that samples from the loaded policy."""
    policy = setup.policy
    sampler = make_sampler(session.config, policy, setup.chat.eos_id, session.folder)
    sampler = in_chunks(sampler, setup.plan.rows, session.warn)
    return local_pool(session, sampler, setup.chat, policy.context, describe_device(policy.model.device))


def local_pool(session: RunSession, sampler: Sampler, chat: ChatFormat, context: int, device: str) -> LocalRolloutPool:
    """A pool in this process, and in the other ones of a run that torchrun started.

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
    )
    return LocalRolloutPool(
        distributed.shard(runner, session.group),
        partial(TokenStreamListener, TokenStream(session.folder), chat),
        groups_per_session=session.config.rollout.groups_per_session,
        device=device,
    )
