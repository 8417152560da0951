"""Registry of metrics: the description of each name, for curves, documentation and alarms."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from trainer.metrics.answer_table import ANSWERS
from trainer.metrics.cluster_table import AHEAD
from trainer.metrics.spec import MetricSpec
from trainer.metrics.system_table import SYSTEM
from trainer.metrics.table import EVALUATION, ITERATION, WATCH
from trainer.metrics.training_use import USES

METRICS: dict[str, MetricSpec] = {spec.name: spec for spec in (*ITERATION, *USES, *AHEAD, *WATCH, *SYSTEM, *ANSWERS)}
"""All metrics with a fixed name. Families with a free part in the name are resolved by `get_spec`."""

_EVALUATION: dict[str, MetricSpec] = {spec.name: spec for spec in EVALUATION}

TERM_PREFIX = "reward/term/"
SUCCESS_PREFIX = "success/"
WATCHED_PREFIX = "watched/"
_PASS_AT = re.compile(r"pass@[1-9][0-9]*")


def get_spec(name: str) -> MetricSpec:
    """Return the description of a metric.

    Families are eval/<suite>/<what>, eval/<suite>/pass@k, reward/term/<term>, in runs with several environments
    success/<environment>, and watched/<view>, which only the site writes.

    Raises:
        KeyError: there is no description for this name.
    """
    if name in METRICS:
        return METRICS[name]
    if name.startswith(TERM_PREFIX) and (term := name.removeprefix(TERM_PREFIX)):
        meaning = f"Mean over trajectories of the sum of the reward term '{term}'."
        return MetricSpec(name, f"Reward: {term}", "reward", meaning)
    if name.startswith(SUCCESS_PREFIX) and (environment := name.removeprefix(SUCCESS_PREFIX)):
        meaning = f"Share of the iteration's trajectories in {environment} that succeeded."
        return replace(METRICS["success/rate"], name=name, title=f"{environment}: success", meaning=meaning)
    if name.startswith(WATCHED_PREFIX) and (view := name.removeprefix(WATCHED_PREFIX)):
        meaning = "Share of the iteration's training attempts that match the watched view, computed by the site."
        return MetricSpec(name, view.replace("-", " ").capitalize(), "watched", meaning, "share", 0.0, 1.0)
    match name.split("/"):
        case ["eval", suite, what] if suite and what in _EVALUATION:
            spec = _EVALUATION[what]
            return replace(spec, name=name, title=f"{suite}: {spec.title}")
        case ["eval", suite, what] if suite and _PASS_AT.fullmatch(what):
            k = int(what.removeprefix("pass@"))
            meaning = f"Chance that at least one of {k} trajectories from a prompt succeeds (unbiased estimate)."
            return replace(_EVALUATION["success"], name=name, title=f"{suite}: pass@{k}", meaning=meaning)
    raise KeyError(f"there is no metric {name!r}: add it to the table in trainer/metrics/table.py")


def finite(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the finite values as floats; omit None, NaN and infinite values.

    Raises:
        KeyError: a name is not in the table.
    """
    metrics = {}
    for name, value in values.items():
        get_spec(name)
        if value is not None and math.isfinite(value):
            metrics[name] = float(value)
    return metrics
