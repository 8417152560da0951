"""Set-up of a run's policy: its source, and a check that it fits into memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from envs.registry import environment_class, spec
from envs.tools.tool_env import ToolEnv
from trainer.config.run import POCKET, RunConfig
from trainer.engines.transformers.cache_check import check_cache
from trainer.engines.transformers.thread_choice import choose_threads
from trainer.imitation import warmup
from trainer.journal.protocol import MODEL_FOLDER, RUN_MODEL, WARMED_UP_FOLDER
from trainer.loops.session import RunSession
from trainer.loops.stages import checkpoints
from trainer.loops.stages.checkpoints import Progress
from trainer.loops.stages.cluster_setup import (
    ClusterSetup,
    computes_here,
    driver_policy,
    needs_cluster,
    reserve_cluster,
)
from trainer.memory import preflight
from trainer.memory.estimate import SMALL
from trainer.memory.preflight import PreflightResult
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import ModelError, Policy, load, pick_device, slow_precision_notice
from trainer.policy.pocket import is_pocket
from trainer.rollout.environment_mix import get_shares


@dataclass(frozen=True)
class PolicySetup:
    """A loaded policy, its chat format, how many rows fit, and the source of the initial policy if it is kept.

    Attributes:
        cluster: set-up of Ray actors; None: the run has none.
    """

    policy: Policy
    chat: ChatFormat
    plan: PreflightResult
    reference: Path | str | None
    cluster: ClusterSetup | None


def load_policy(session: RunSession, *, with_reference: bool = False) -> PolicySetup:
    """Load the policy of the newest checkpoint, also in the other processes of the run.

    Afterwards the session's settings have no `auto` that depends on the kind of the policy.

    Args:
        session: the resumed run.
        with_reference: keep the initial policy if the KL penalty needs it or its memory is small.
    Raises:
        ModelError: the model cannot be loaded, or does not fit the device.
        ClusterError: the run needs a cluster that does not answer or is too small.
    """
    config = session.config
    policy_config, source = driver_policy(config), _source(session)
    plan = PreflightResult()
    if computes_here(config):
        plan = preflight.check(config, str(source), pick_device(policy_config.device))
    if plan.warning:
        session.warn(plan.warning)
    policy = load(source, policy_config)
    if slow := slow_precision_notice(policy.model):
        session.warn(slow)
    if policy.model.device.type == "cpu" and not config.policy.threads:
        _set_threads(session.progress, policy)
    if not config.engine.foreign:
        check_cache(policy.model)
    config = session.config = config.with_prompts(pocket=is_pocket(policy.tokenizer))
    reference = base_source(session) if with_reference and keeps_reference(config, policy) else None
    chat = ChatFormat.of_rollout(policy.tokenizer, config.rollout, policy.end_ids)
    if chat.call_notice and _offers_tools(config):
        session.warn(chat.call_notice)
    cluster = reserve_cluster(session, policy, reference) if needs_cluster(config) else None
    return PolicySetup(policy, chat, plan, reference, cluster)


def _set_threads(progress: Progress, policy: Policy) -> None:
    """Compute with the fastest number of threads, chosen once for the whole run: it affects the last bits of sums."""
    progress.threads = progress.threads or choose_threads(policy.model)
    torch.set_num_threads(progress.threads)


def _offers_tools(config: RunConfig) -> bool:
    """True if an environment of the run has tools; environments with servers name them only when played."""
    shares = [(share.name, share.config.environment.settings) for share in get_shares(config)]
    return any(issubclass(environment_class(name), ToolEnv) or spec(name, settings).tools for name, settings in shares)


def base_source(session: RunSession) -> Path | str:
    """Return the source of the policy before any training; the pocket policy is warmed up first if necessary.

    After the run's own warm-up on demonstrations, it is the warmed-up policy: the KL reference, and the base of the
    adapters.
    """
    model = session.config.policy.model
    if session.config.warmup_steps and session.progress.iteration >= 0:
        folder = session.folder / WARMED_UP_FOLDER
        if not folder.is_dir():
            raise ModelError(
                f"{folder} is missing, from which the training of this run starts: restore it from a backup, or start "
                "a new run"
            )
        return folder
    if model.startswith(RUN_MODEL):
        session.progress.base = _checkpoint_of_site(model)
        return session.progress.base
    if model != POCKET:
        session.progress.base = session.progress.base or checkpoints.resolve(model)
        return session.progress.base
    report = partial(session.reporter.phase, "warmup", unit="steps")

    def report_and_check_stop(done: int, total: int) -> None:
        report(done, total)
        session.check_stop()

    return warmup.find_or_build(session.config.warmup, session.cache, report_and_check_stop)


def _checkpoint_of_site(model: str) -> str:
    """Resolve the checkpoint of another run whose folder the site's worker has found. Raises ModelError elsewhere."""
    folder = Path(os.environ.get(MODEL_FOLDER, ""))
    if not folder.name.isdecimal():
        raise ModelError(
            f"policy.model: {model!r} names a run of a site, which only the site can find: download that checkpoint "
            "and name its folder"
        )
    if problem := checkpoints.damage(folder.parents[1], int(folder.name)):
        raise ModelError(f"policy.model: of {model}, {problem}")
    return str(folder)


def _source(session: RunSession) -> Path | str:
    """Return the current source of the policy."""
    adapted = session.config.lora.rank > 0  # the base model gets the checkpoint's adapters; its weights are not used
    if session.checkpoint is None or adapted:
        return base_source(session)
    return checkpoints.get_path(session.folder, session.checkpoint)


def keeps_reference(config: RunConfig, policy: Policy) -> bool:
    """True if a second model is kept as the initial policy: for the KL penalty, or to measure it if the model is small.

    Adapters need none: switching them off restores the initial policy.
    """
    return not config.lora.rank and (config.algorithm.kl_coef > 0 or policy.parameters < SMALL)
