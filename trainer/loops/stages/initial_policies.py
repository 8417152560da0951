"""Initial policy of a recorded run, for commands that compute with it again."""

from __future__ import annotations

from pathlib import Path

from trainer.config.run import POCKET, RunConfig
from trainer.imitation import warmup
from trainer.journal.protocol import WARMED_UP_FOLDER
from trainer.loops.stages import checkpoints
from trainer.paths import default_cache


def initial_policy(folder: Path, config: RunConfig) -> Path | str:
    """Return the source of the policy with which the training of the run in a folder began.

    After the run's own warm-up on demonstrations, it is the warmed-up policy. A pocket policy that is not cached any
    more is warmed up again, which takes minutes.
    """
    if config.policy.model == POCKET:
        return warmup.find_or_build(config.warmup, default_cache(), lambda done, total: None)
    if config.warmup_steps:
        return folder / WARMED_UP_FOLDER
    saved = checkpoints.checkpoint_iterations(folder)
    recorded = checkpoints.load_progress(folder, saved[-1]).base if saved else ""
    return recorded or checkpoints.resolve(config.policy.model)
