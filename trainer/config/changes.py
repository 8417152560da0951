"""Settings that change while a run trains: those planned in its configuration, and those requested on the way.

A change is written as `optimizer.policy_lr@40=1e-6`: the new value holds from iteration 40 on, until a later change of
the same setting. `optimizer.policy_lr@40/1=1e-6` holds after the run's first rewind only, and then rather than any
change from before that rewind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from trainer.config.base import Section, error_text

Config = TypeVar("Config", bound=Section)
CHANGEABLE = (
    "optimizer.policy_lr",
    "optimizer.critic_lr",
    "algorithm.entropy_coef",
    "algorithm.kl_coef",
    "algorithm.clip_low",
    "algorithm.clip_high",
    "algorithm.group_filter_keep",
    "rollout.temperature",
    "evaluation.every",
)
"""Settings that may change: a run continues exactly with other values of them. Others shape weights, prompts, batches
or results, so that curves before and after the change would not be one run's."""
_KEY = re.compile(r"([a-z_.]+)@([1-9]\d{0,6})(?:/([1-9]\d{0,3}))?")


class Start(NamedTuple):
    """When a change begins; moments are ordered by time."""

    rewinds: int
    iteration: int


class Held(NamedTuple):
    """The changed value of a setting, and when it began."""

    start: Start
    value: str


def key_of(name: str, iteration: int, rewinds: int = 0) -> str:
    """Return the key of a change that begins at an iteration, after so many rewinds of the run."""
    return f"{name}@{iteration}" + (f"/{rewinds}" if rewinds else "")


def parse_key(key: str) -> tuple[str, Start]:
    """Return the setting and the beginning of a key such as `optimizer.policy_lr@40`. Raises ValueError."""
    match = _KEY.fullmatch(key.strip())
    if match is None:
        raise ValueError(f"{key!r} names no setting and iteration, as in optimizer.policy_lr@40")
    if match[1] not in CHANGEABLE:
        raise ValueError(f"{match[1]} cannot change while a run trains: only {', '.join(CHANGEABLE)} can")
    return match[1], Start(int(match[3] or 0), int(match[2]))


def held_at(changes: Mapping[str, str], iteration: int, rewinds: int = 0) -> dict[str, Held]:
    """Return the changed values that hold at an iteration, after so many rewinds, by setting."""
    parsed = sorted((start, name, text) for key, text in changes.items() for name, start in [parse_key(key)])
    return {
        name: Held(start, text)
        for start, name, text in parsed
        if start.iteration <= iteration and start.rewinds <= rewinds
    }


def starts_of(changes: Mapping[str, str]) -> list[Start]:
    """Return when settings change, in the order of time."""
    return sorted({parse_key(key)[1] for key in changes})


def with_values(config: Config, values: Mapping[str, str]) -> Config:
    """Return the configuration with other values of some settings, without any further changes or rewinds.

    Raises:
        ValueError: a value is impossible by itself or with the other settings.
    """
    data: dict[str, Any] = config.model_dump() | {"changes": {}, "rewinds": {}}
    for name, text in values.items():
        section, _, field = name.partition(".")
        data[section][field] = text.strip()
    try:
        return type(config).model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where + ': ' if where else ''}{error_text(first)}") from None
