"""Choice of the next trials and of arms to stop, by Optuna's samplers and pruner.

Optuna's study is rebuilt in memory from the rows of a study at each step, with a seed derived from them: the site has
no second database, and a step repeated after a crash makes the same choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from webapp.studies.study_spec import EarlyStopping, SearchRange, SearchSpec

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

RANDOM_TRIALS = 8
"""Number of random trials before the Bayesian search starts."""
_RUNG = "completed_rung_{}"
"""Attribute for the value of a trial at a rung, as Optuna's pruner stores it."""
Better = Literal["up", "down"]


@dataclass(frozen=True)
class ArmRecord:
    """An arm for the optimizer. `value` is its result, if there is one; `rungs` are its values at rungs, from 0."""

    changes: Mapping[str, Any]
    state: Literal["running", "complete", "stopped", "failed"]
    value: float | None = None
    rungs: Mapping[int, float] = field(default_factory=dict)


def rung_iterations(stopping: EarlyStopping, iterations: int) -> list[int]:
    """Return the iterations at which arms are compared, all before the last one."""
    return list(_powers(stopping, iterations))


def _powers(stopping: EarlyStopping, iterations: int) -> Iterator[int]:
    at = stopping.min_iterations
    while at < iterations:
        yield at
        at *= stopping.reduction


def suggestions(
    spec: SearchSpec, whole: Mapping[str, bool], records: Sequence[ArmRecord], better: Better, count: int, seed: int
) -> list[dict[str, Any]]:
    """Return the settings of the next `count` trials.

    Args:
        whole: for each setting of the space, True if it takes only whole numbers.
        seed: seed of the study, to which the number of records is added.
    """
    optuna = _library()
    seed = (seed + len(records)) % 2**32
    sampler: BaseSampler = optuna.samplers.RandomSampler(seed=seed)
    if spec.kind == "bayesian":
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS, constant_liar=True)
    space = {
        search_range.setting: _distribution(search_range, whole[search_range.setting]) for search_range in spec.space
    }
    study = optuna.create_study(sampler=sampler, direction=_direction(better))
    for record in records:
        study.add_trial(_trial(record, space))
    suggested = [study.ask(space).params for _ in range(count)]
    ranges = {search_range.setting: search_range for search_range in spec.space}
    return [{name: _short(value, ranges[name]) for name, value in params.items()} for params in suggested]


def _short(value: Any, range_: SearchRange) -> Any:
    """Round the value to four digits, within the range: more digits are meaningless and fill pages."""
    if not isinstance(value, float) or range_.low is None or range_.high is None:
        return value
    return min(range_.high, max(range_.low, float(f"{value:.4g}")))


def is_hopeless(stopping: EarlyStopping, better: Better, arm: ArmRecord, others: Sequence[ArmRecord]) -> bool:
    """Return True if the arm, which has just reached the last of its rungs, should stop there."""
    optuna = _library()
    rung = max(arm.rungs)
    earlier_rungs = {number: value for number, value in arm.rungs.items() if number < rung}
    study = optuna.create_study(direction=_direction(better))
    for other in others:
        study.add_trial(_trial(other, {}))
    at = stopping.min_iterations * stopping.reduction**rung
    study.add_trial(_trial(ArmRecord(arm.changes, "running", rungs=earlier_rungs), {}, {at: arm.rungs[rung]}))
    pruner = optuna.pruners.SuccessiveHalvingPruner(
        min_resource=stopping.min_iterations, reduction_factor=stopping.reduction
    )
    return bool(pruner.prune(study, study.get_trials(deepcopy=False)[-1]))


def _library() -> Any:
    """Import Optuna, only in the process that steps studies: it takes seconds and tens of megabytes."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _direction(better: Better) -> str:
    return "maximize" if better == "up" else "minimize"


def _distribution(search_range: SearchRange, whole: bool) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if search_range.values:
        return CategoricalDistribution([value for value in search_range.values if not isinstance(value, (list, dict))])
    assert search_range.low is not None
    assert search_range.high is not None
    if whole:
        return IntDistribution(round(search_range.low), round(search_range.high), log=search_range.log)
    return FloatDistribution(search_range.low, search_range.high, log=search_range.log)


def _trial(
    record: ArmRecord, space: Mapping[str, BaseDistribution], intermediate: Mapping[int, float] | None = None
) -> FrozenTrial:
    from optuna.trial import TrialState, create_trial

    values = dict(intermediate or {})
    state = {
        "running": TrialState.RUNNING,
        "complete": TrialState.COMPLETE,
        "stopped": TrialState.PRUNED,
        "failed": TrialState.FAIL,
    }[record.state]
    if record.state == "stopped" and record.rungs:
        values |= {rung + 1: value for rung, value in sorted(record.rungs.items())}
    if record.state == "complete" and record.value is None:
        state = TrialState.FAIL
    return create_trial(
        state=state,
        value=record.value if state == TrialState.COMPLETE else None,
        params={name: record.changes[name] for name in space if name in record.changes},
        distributions={name: distribution for name, distribution in space.items() if name in record.changes},
        intermediate_values=values,
        system_attrs={_RUNG.format(rung): value for rung, value in record.rungs.items()},
    )
