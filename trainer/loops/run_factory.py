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
"""By `config.kind`."""


def loop_of(config: RunConfig) -> Loop:
    """The loop for the run's kind, or for a hosted model."""
    return evaluate_hosted if config.hosted.url else LOOPS[config.kind]


def run(
    config: RunConfig,
    folder: Path,
    cache: Path,
    stop: Callable[[], bool] = lambda: False,
) -> RunFinished:
    """Take a run to its end, or to where it is asked to stop; a folder with a checkpoint is continued.

    A run that loses a learner begins another attempt from its newest checkpoint.

    Args:
        config: requested settings.
        folder: where journal, checkpoints and caches are written.
        cache: where warmed-up policies are kept between runs.
        stop: polled between turns and steps.
    Returns:
        The closing event, already in the journal.
    """
    loop = loop_of(config)
    with run_session(config, folder, cache, stop) as session:
        while session.end is None:
            try:
                loop(session)
            except LearnerLostError as error:
                session.recover(error)
    return session.result
