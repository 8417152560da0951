"""Recovery from a collapse: a clone that continues from the last healthy checkpoint with one change."""

from __future__ import annotations

from pydantic import ValidationError

from trainer.config.files import with_values
from trainer.config.removed import stored_config
from webapp.runs import echo_trap
from webapp.runs.inputs.run_models import RunModel
from webapp.runs.launch.variations import STARPO_S_KEEP, Variation, of_config
from webapp.runs.models import Run

RECOVER = "recover"
"""Key of the variation in the address of the launch form."""


def find_variation(run: Run, key: str) -> Variation | None:
    """Return the variation of that key that is offered for a clone of the run; None if there is none."""
    if key == RECOVER:
        return recovery(run, last_healthy_checkpoint(run))
    return next((variation for variation in of_config(run.config) if variation.key == key), None)


def last_healthy_checkpoint(run: Run) -> int | None:
    """Return the iteration of the newest checkpoint before the present trouble; None without trouble or checkpoint."""
    since = echo_trap.trouble_since(run)
    if since is None:
        return None
    stored = run.checkpoints.filter(iteration__gt=0, iteration__lt=since).order_by("-iteration")
    return stored.values_list("iteration", flat=True).first()


def recovery(run: Run, iteration: int | None) -> Variation | None:
    """Return a clone that trains the remaining iterations from there: with StarPO-S, or else at half the learning rate.

    None without a checkpoint, or if the settings no longer fit.

    Args:
        iteration: iteration of the `last_healthy_checkpoint`.
    """
    if iteration is None or run.config.get("kind") != "train":
        return None
    try:
        base = stored_config(run.config).at_iteration(iteration + 1, run.rewinds.count())
        changed: dict[str, object] = {
            "changes": {},  # their iterations count from the beginning of the run
            "rewinds": {},
            "policy.model": str(RunModel(run.slug, iteration)),
            "policy.revision": "",
            "sft.warmup_steps": 0,
            "iterations": max(1, base.iterations - iteration),
        }
        if base.algorithm.group_filter == "none":
            remedy = "with StarPO-S"
            changed |= {"algorithm.group_filter": "std", "algorithm.group_filter_keep": STARPO_S_KEEP}
        else:
            remedy = "at half the learning rate"
            changed["optimizer.policy_lr"] = base.optimizer.policy_lr / 2
        return Variation(RECOVER, f"Continue from iteration {iteration} {remedy}", with_values(base, changed))
    except ValidationError:
        return None
