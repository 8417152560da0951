"""Evaluation loop for a model behind an endpoint; ends when its budget is spent."""

from __future__ import annotations

from trainer.engines.hosted.chat import HostedChat
from trainer.engines.hosted.costs import BudgetSpentError
from trainer.engines.hosted.hosted_client import HostedError, RefusedError
from trainer.engines.hosted.hosted_sampler import HostedSampler
from trainer.loops.evaluate import begin_evaluation, play_missing, progress_text
from trainer.loops.session import RunSession
from trainer.loops.stages.pools import local_pool
from trainer.loops.stages.rollout_stage import RolloutStage
from trainer.loops.stages.suite_evaluation import SuiteEvaluator

UNLIMITED = 2**40
"""Context in token ids: the endpoint itself reports that its context is full."""


def evaluate_hosted(session: RunSession) -> None:
    """Play the suites that no earlier attempt completed; responses in the run's cache are not requested again."""
    completed = begin_evaluation(session)
    stopped, config = session.on_interrupt, session.config.with_prompts(pocket=False)
    session.config = config
    rollout = config.rollout
    chat = HostedChat(
        think=rollout.think,
        prefill=config.hosted.prefills,
        system=rollout.system,
        native_calls=rollout.tool_calls == "native",
    )
    sampler = HostedSampler(config.hosted, chat, session.folder, session.stop, session.warn)
    session.on_close(sampler.close)

    def write_costs() -> None:
        """Log the cost of the run so far, if it ends within a suite."""
        session.journal.write(session.reporter.metrics(sampler.totals.metrics()))

    def stop_with_costs() -> None:
        write_costs()
        stopped()

    session.on_interrupt = stop_with_costs
    pool = local_pool(session, sampler, chat, UNLIMITED, device=f"hosted at {config.hosted.host}")
    rollouts = RolloutStage(session, pool, chat)
    session.started(pool.device, 0, completed)
    try:
        play_missing(session, SuiteEvaluator(session, rollouts, completed, lambda: sampler.totals.metrics()))
    except BudgetSpentError as error:
        write_costs()
        session.finish(
            "budget",
            f"Stopped with {progress_text(session)}: {error}. Responses so far are kept in the run's "
            "folder: with a higher limit, --resume requests only the rest.",
        )
    except (HostedError, RefusedError):
        write_costs()
        raise
