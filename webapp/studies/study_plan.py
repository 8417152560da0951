"""Arms and runs that follow from the plan of a study, or the reason why it cannot be launched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from pydantic import ValidationError

import envs
from trainer.config.computation import computation_digest
from trainer.config.files import validation_errors, with_values
from trainer.config.run import RunConfig
from trainer.metrics import registry
from trainer.studies import catalogue, cell_settings
from trainer.studies.method import value_text
from webapp.core import formatting
from webapp.core.quotas import is_reached, quota
from webapp.runs.inputs import allowed_inputs
from webapp.runs.launch.fields import full_labels, leaves
from webapp.runs.launch.texts import SETTINGS, base_type, data_to_text
from webapp.runs.models import Run
from webapp.studies.study_spec import CatalogueSpec, GridSpec, SearchSpec, Spec

MAX_NAME = 120
HARD_LIMIT = 900
"""Maximum number of runs of a study without a quota: each run's launch key ends with its number."""
NOT_VARIED = ("name", "seed", "kind", "tags", "trackers", "visibility")
"""Settings that name a run or control its repetition."""


class StudyRefused(ValueError):
    """The study cannot be launched. `field` is the part of the plan; the message continues its label."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class PlannedArm:
    """A variant. `changes` are the settings in which arms differ; empty for arms of the catalogue."""

    name: str
    title: str
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCell:
    """A run of the study, and the index of its arm."""

    arm: int
    environment: str
    seed: int
    config: RunConfig
    preset: str = ""


@dataclass(frozen=True)
class StudyPlan:
    """Arms and runs at the launch. `runs` also counts runs of later trials; `common` is the base of trials."""

    title: str
    arms: list[PlannedArm]
    cells: list[PlannedCell]
    runs: int
    common: RunConfig | None = None


def planned(spec: Spec) -> StudyPlan:
    """Return the arms and runs with which a launch starts. Raises StudyRefused."""
    try:
        json.dumps(spec.model_dump(), allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise StudyRefused("config", "hold a number or a character that cannot be stored") from None
    match spec:
        case CatalogueSpec():
            plan = _of_catalogue(spec)
        case GridSpec():
            plan = _of_grid(spec)
        case SearchSpec():
            plan = _of_search(spec)
    if is_reached("RUNS_PER_STUDY", plan.runs - 1) or plan.runs > HARD_LIMIT:
        most = min(quota("RUNS_PER_STUDY") or HARD_LIMIT, HARD_LIMIT)
        raise StudyRefused(
            "seeds", f"lead to {plan.runs:,} runs, and a study may have at most {most}: choose fewer values or seeds"
        )
    return plan


def _of_catalogue(spec: CatalogueSpec) -> StudyPlan:
    if spec.study not in catalogue.STUDIES:
        raise StudyRefused("study", f"must be one of {', '.join(catalogue.STUDIES)}")
    study = catalogue.STUDIES[spec.study]
    for name in spec.overrides:
        if _setting(name, "overrides") == "environment.name":
            raise StudyRefused("overrides", "may not change environment.name: the study names its environments")
    arms = [PlannedArm(arm.name, arm.title) for arm in study.arms]
    numbers = {arm.name: number for number, arm in enumerate(study.arms)}
    cells = [
        PlannedCell(
            numbers[arm.name],
            environment,
            seed,
            cell_settings.configuration(study, spec.scale, environment, arm, seed),
        )
        for environment, arm, seed in study.places(spec.seeds)
    ]
    if spec.overrides:
        changed = [replace(cell, config=_changed(cell.config, spec.overrides, "overrides")) for cell in cells]
        _require_as_different(cells, changed)
        cells = changed
    title = f"{catalogue.label(spec.study)}: {study.title} ({spec.scale})"
    return StudyPlan(title, arms, cells, len(cells))


def _of_grid(spec: GridSpec) -> StudyPlan:
    base = _base(spec.config)
    _require_metric(spec.metric)
    names = [_setting(axis.setting, "axes") for axis in spec.axes]
    combinations = list(product(*(axis.values for axis in spec.axes)))
    if len(combinations) * spec.seeds > HARD_LIMIT:  # before each of them is validated
        raise StudyRefused("axes", f"have {len(combinations):,} combinations: choose fewer values")
    arms, configs = [], []
    for number, values in enumerate(combinations, start=1):
        changes = dict(zip(names, values, strict=True))
        config = _changed(base, changes, "axes")
        arms.append(PlannedArm(f"arm-{number}", arm_title(changes), changes))
        configs.append(config)
    _require_different(configs)
    _require_seeds(base, spec.seeds)
    cells = [
        PlannedCell(number, config.environment.name, seed, named(config, arms[number].title, seed), spec.preset)
        for seed in range(base.seed, base.seed + spec.seeds)
        for number, config in enumerate(configs)
    ]
    axes = " × ".join(short_label(name) for name in names)
    return StudyPlan(f"{base.environment.name}: {axes}", arms, cells, len(cells))


def _of_search(spec: SearchSpec) -> StudyPlan:
    """Plan a search, which starts without arms: its trials are chosen when they are launched (progress.py)."""
    base = _base(spec.config)
    _require_metric(spec.metric)
    _require_seeds(base, spec.seeds)
    names = []
    for search_range in spec.space:
        names.append(_setting(search_range.setting, "space"))
        if not search_range.values and number_type(search_range.setting, base.environment.name) is None:
            raise StudyRefused(
                "space", f"give {search_range.setting} a range, and it is no number: list its values instead"
            )
        for value in search_range.values or [search_range.low, search_range.high]:
            if isinstance(value, (list, dict)) or value is None:
                raise StudyRefused("space", f"of {search_range.setting} may hold numbers, words, true and false only")
            config = _changed(base, {search_range.setting: _as_whole(value)}, "space")
            if _setting(search_range.setting, "space") in allowed_inputs.problems(config, Run.objects.none()):
                raise StudyRefused(
                    "space", f"of {search_range.setting} names a model or a file: compare these in a grid"
                )
    axes = " × ".join(short_label(name) for name in names)
    return StudyPlan(f"{base.environment.name}: search of {axes}", [], [], spec.trials * spec.seeds, base)


def number_type(setting: str, environment: str) -> type[int] | type[float] | None:
    """Return the type of a numeric setting, of the run or of its environment; None for other settings."""
    fields = dict(leaves(RunConfig, ""))
    if setting.startswith(f"{SETTINGS}.") and environment in envs.names():
        fields |= dict(leaves(envs.settings_model(environment), f"{SETTINGS}."))
    info = fields.get(setting)
    bare = None if info is None else base_type(info.annotation)
    return bare if bare in (int, float) else None


def _as_whole(value: Any) -> Any:
    """Convert a whole number to int, for settings that take only integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def trial_cells(spec: SearchSpec, changes: Mapping[str, Any], arm: int = 0) -> tuple[PlannedArm, list[PlannedCell]]:
    """Return arm and runs of one trial. Raises StudyRefused for values that do not fit together."""
    base = _base(spec.config)
    config = _changed(base, changes, "space")
    title = arm_title(changes)
    cells = [
        PlannedCell(arm, config.environment.name, seed, named(config, title, seed), spec.preset)
        for seed in range(base.seed, base.seed + spec.seeds)
    ]
    return PlannedArm("", title, dict(changes)), cells


def _base(data: dict[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        where, text = validation_errors(error)[0]
        raise StudyRefused("config", f"is invalid: {where}: {text}") from None


def _setting(name: str, place: str) -> str:
    """Return the name of a setting that a study may vary. Raises StudyRefused."""
    if name in NOT_VARIED:
        hint = "choose the number of seeds instead" if name == "seed" else "it does not change what a run learns"
        raise StudyRefused(place, f"may not vary {name}: {hint}")
    return name


def _require_metric(name: str) -> None:
    """Raise StudyRefused unless the metric has a better direction."""
    try:
        better = registry.get_spec(name).better
    except KeyError:
        raise StudyRefused("metric", f"{name} is not a metric: see docs/metrics.md") from None
    if better == "none":
        raise StudyRefused("metric", f"{name} has no better direction: choose another one, such as success/rate")


def _changed(config: RunConfig, changes: Mapping[str, Any], place: str) -> RunConfig:
    try:
        return with_values(config, changes)
    except ValidationError as error:
        where, text = validation_errors(error)[0]
        named = {where: changes[where]} if where in changes else changes
        shown = ", ".join(f"{name} = {data_to_text(value)}" for name, value in named.items())
        problem = text if where in changes else f"{where}: {text}"
        raise StudyRefused(place, f"contain a value that does not fit: {shown}: {problem}") from None
    except ValueError as error:
        raise StudyRefused(place, f"name an unknown setting: {error}") from None


def _require_seeds(base: RunConfig, seeds: int) -> None:
    """Raise StudyRefused if the seeds after the one of the shared settings would be too large."""
    last = 2**32 - seeds
    if base.seed > last:
        raise StudyRefused("config", f"begin with seed {base.seed}, too large for {seeds} seeds: use at most {last}")


def _require_different(configs: Sequence[RunConfig]) -> None:
    """Raise StudyRefused if two arms are the same computation, as with a setting that has no effect."""
    seen: dict[str, int] = {}
    for number, config in enumerate(configs, start=1):
        digest = computation_digest(config)
        if digest in seen:
            raise StudyRefused(
                "axes", f"make arms {seen[digest]} and {number} the same computation: change their values"
            )
        seen[digest] = number


def _require_as_different(before: Sequence[PlannedCell], after: Sequence[PlannedCell]) -> None:
    """Raise StudyRefused if changes to all runs make two of them equal that differed; smoke tests may start equal."""
    seen: dict[str, tuple[str, int]] = {}
    for planned_cell, changed in zip(before, after, strict=True):
        own_digest, arm = _nameless_digest(planned_cell.config), changed.arm + 1
        digest = _nameless_digest(changed.config)
        other, number = seen.setdefault(digest, (own_digest, arm))
        if other != own_digest:
            raise StudyRefused("overrides", f"make arms {number} and {arm} the same: leave what they differ in")


def _nameless_digest(config: RunConfig) -> str:
    return config.model_copy(update={"name": ""}).digest()


def named(config: RunConfig, title: str, seed: int) -> RunConfig:
    """Return the configuration of one run, with its seed, named after its arm."""
    end = f", seed {seed}"
    start = config.name or config.environment.name
    name = f"{start}: {title}"[: MAX_NAME - len(end)].strip() + end
    return config.model_copy(update={"name": name, "seed": seed})


def short_label(name: str) -> str:
    """Return the label of a setting for the title of an arm."""
    return full_labels().get(name, name.rpartition(".")[2].replace("_", " ")).partition(",")[0]


def arm_title(changes: Mapping[str, Any]) -> str:
    """Return the settings of an arm as text, e.g. “KL penalty 0.001 · Group size 8”."""
    text = " · ".join(f"{short_label(name)} {value_text(value)}" for name, value in changes.items())
    return text if len(text) <= 200 else text[:199] + "…"


def count_text(plan: StudyPlan, spec: Spec) -> str:
    """Return the size of a study as text, e.g. “18 runs: 2 arms × 3 environments × 3 seeds”."""
    runs, seeds = formatting.plural(plan.runs, "run"), formatting.plural(spec.seeds, "seed")
    if isinstance(spec, SearchSpec):
        return f"{runs}: {formatting.plural(spec.trials, 'trial')} × {seeds}, {spec.parallel} at a time"
    environments = len({cell.environment for cell in plan.cells})
    parts = [formatting.plural(len(plan.arms), "arm")]
    if environments > 1:
        parts.append(formatting.plural(environments, "environment"))
    return f"{runs}: {' × '.join([*parts, seeds])}"


def list_configs(plan: StudyPlan) -> Iterator[RunConfig]:
    """Yield the configurations from which to estimate the study: one per run, or the common one per trial's run."""
    if plan.common is not None:
        yield from [plan.common] * plan.runs
    else:
        yield from (cell.config for cell in plan.cells)
