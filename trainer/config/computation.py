"""Digest of a run's computation: equal for configurations that differ only in settings without effect."""

from __future__ import annotations

import hashlib
import json

from trainer.config.dotted import leaves
from trainer.config.run import RunConfig

NAMING = ("name", "tags", "trackers")
"""Settings that change no number of a run."""


def computation_digest(config: RunConfig) -> str:
    """Return the digest of the settings that have an effect, without the names of the run.

    Two runs with the same digest are the same computation even if their configurations differ: a group filter that
    keeps all groups, for instance, has no effect.
    """
    data = config.model_dump(mode="json")
    if not config.algorithm.filters_groups:
        data["algorithm"]["group_filter"] = "none"
    unused = {*config.without_effect(data), *NAMING}
    used = {name: value for name, value in leaves(data) if name not in unused}
    return hashlib.sha256(json.dumps(used, sort_keys=True).encode()).hexdigest()[:16]
