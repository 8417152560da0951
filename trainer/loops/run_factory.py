"""Loop of each kind of run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainer.cluster.errors import LearnerLostError
from trainer.config.run import RunConfig
from trainer.journal.events import RunFinished
from trainer.loops.evaluate import evaluate
from trainer.loops.evaluate_hosted import evaluate_hosted
from trainer.loops.session import RunSession, run_session
from trainer.loops.sft import sft
from trainer.loops.train import train

Loop = Callable[[RunSession], None]

LOOPS: dict[str, Loop] = {"train": train, "sft": sft, "evaluate": evaluate}
"""Loops by `config.kind`."""


def get_loop(config: RunConfig) -> Loop:
    """Return the loop for the run's kind, or for a hosted model."""
    return evaluate_hosted if config.hosted.url else LOOPS[config.kind]


def run(
    config: RunConfig,
    folder: Path,
    cache: Path,
    stop: Callable[[], bool] = lambda: False,
) -> RunFinished:
    """Run to the end, or to a requested stop; a folder with a checkpoint is continued.

    A run that loses a learner begins another attempt from its newest checkpoint.

    Args:
        config: requested settings.
        folder: folder for journal, checkpoints and caches.
        cache: folder of warmed-up policies, shared by runs.
        stop: polled between turns and steps.
    Returns:
        The closing event, already in the journal.
    """
    loop = get_loop(config)
    with run_session(config, folder, cache, stop) as session:
        while session.end is None:
            try:
                loop(session)
            except LearnerLostError as error:
                session.recover(error)
    return session.result
