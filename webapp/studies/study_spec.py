"""Plan of a study as data: a study of the catalogue, a grid of settings, or a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, TypeAdapter, model_validator

from trainer.studies.catalogue import STUDIES

MAX_SEEDS = 20
MAX_AXES = 6
MAX_VALUES = 50
MAX_TRIALS = 500
MAX_PARALLEL = 50
DEFAULT_METRIC = "success/rate"
DEFAULT_SEEDS = 3
"""Default for grids, and for studies that are not in the catalogue."""

SettingName = Annotated[str, Field(pattern=r"^[a-z_][A-Za-z0-9_.]*$", max_length=100)]
Seeds = Annotated[int, Field(strict=True, ge=1, le=MAX_SEEDS, description="Number of seeds of each arm.")]
Metric = Annotated[str, Field(pattern=r"^[^\x00]+$", max_length=100)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Axis(_Strict):
    """A setting and the values that a grid tries."""

    setting: SettingName
    values: list[JsonValue] = Field(min_length=1, max_length=MAX_VALUES)

    @model_validator(mode="after")
    def _distinct(self) -> Axis:
        texts = [repr(value) for value in self.values]
        if len(set(texts)) < len(texts):
            raise ValueError(f"the values of {self.setting} must differ from each other")
        return self


class SearchRange(_Strict):
    """A setting and the range of a search: from `low` to `high`, or among `values`."""

    setting: SettingName
    low: float | None = Field(default=None, allow_inf_nan=False)
    high: float | None = Field(default=None, allow_inf_nan=False)
    log: StrictBool = Field(default=False, description="Even on a logarithmic scale, as for learning rates.")
    values: list[JsonValue] = Field(default_factory=list, max_length=MAX_VALUES)

    @model_validator(mode="after")
    def _one_way(self) -> SearchRange:
        ends = [end for end in (self.low, self.high) if end is not None]
        if bool(self.values) == bool(ends) or len(ends) == 1:
            raise ValueError(f"{self.setting} needs either `low` and `high`, or `values`")
        if self.low is not None and self.high is not None:
            if self.low >= self.high:
                raise ValueError(f"{self.setting}: `low` must be below `high`")
            if self.log and self.low <= 0:
                raise ValueError(f"{self.setting}: a logarithmic scale needs a `low` above 0")
        return self


class EarlyStopping(_Strict):
    """Asynchronous successive halving (L. Li et al. 2020, MLSys, “ASHA”).

    At iterations `min_iterations` × `reduction`^k, an arm continues only if its value so far is in the best
    1/`reduction` of the arms that got there.
    """

    min_iterations: int = Field(default=5, strict=True, ge=1, le=100_000, description="Iteration of the first rung.")
    reduction: int = Field(default=3, strict=True, ge=2, le=10, description="One in so many goes on.")


def default_seeds(study: str, scale: str) -> int:
    """Return the default number of seeds of each arm of a catalogue study."""
    seeds = STUDIES[study].seeds if study in STUDIES else {}
    return next((number for name, number in seeds.items() if name == scale), DEFAULT_SEEDS)


class CatalogueSpec(_Strict):
    """A study of the paper, at a scale."""

    kind: Literal["catalogue"] = "catalogue"
    study: str = Field(max_length=40, description="Name of the study, as in figure-9.")
    scale: Literal["smoke", "pocket", "paper"] = "pocket"
    seeds: Seeds = Field(default_factory=lambda given: default_seeds(given.get("study", ""), given.get("scale", "")))
    overrides: dict[str, JsonValue] = Field(
        default_factory=dict, max_length=50, description="Dotted setting → its value, in all runs."
    )


class GridSpec(_Strict):
    """All combinations of the values of some settings. `config` contains the common settings."""

    kind: Literal["grid"] = "grid"
    config: dict[str, Any]
    preset: str = Field(default="", max_length=100)
    axes: list[Axis] = Field(min_length=1, max_length=MAX_AXES)
    seeds: Seeds = DEFAULT_SEEDS
    metric: Metric = DEFAULT_METRIC
    early_stopping: EarlyStopping | None = None

    @model_validator(mode="after")
    def _distinct(self) -> GridSpec:
        _require_distinct([axis.setting for axis in self.axes])
        return self


class SearchSpec(_Strict):
    """Trials with values from ranges, chosen at random or from the results of earlier trials (TPE)."""

    kind: Literal["random", "bayesian"]
    config: dict[str, Any]
    preset: str = Field(default="", max_length=100)
    space: list[SearchRange] = Field(min_length=1, max_length=MAX_AXES)
    trials: int = Field(default=20, strict=True, ge=1, le=MAX_TRIALS)
    parallel: int = Field(default=4, strict=True, ge=1, le=MAX_PARALLEL, description="Trials in the queue at a time.")
    seeds: Seeds = 1
    metric: Metric = DEFAULT_METRIC
    early_stopping: EarlyStopping | None = None

    @model_validator(mode="after")
    def _distinct(self) -> SearchSpec:
        _require_distinct([search_range.setting for search_range in self.space])
        return self


def _require_distinct(settings: Sequence[str]) -> None:
    for name in settings:
        if settings.count(name) > 1:
            raise ValueError(f"{name} is named twice: give all of its values in one place")


Spec = CatalogueSpec | GridSpec | SearchSpec
_ADAPTER: TypeAdapter[Spec] = TypeAdapter(Annotated[Spec, Field(discriminator="kind")])


def read_spec(data: Any) -> Spec:
    """Parse a stored or posted plan. Raises pydantic's ValidationError."""
    return _ADAPTER.validate_python(data)
