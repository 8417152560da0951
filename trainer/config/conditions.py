"""Conditions under which settings have no effect, with the reason: declared by the section that contains the settings.

A setting without effect is valid: it keeps its value in case the other setting changes back. Conditions read nested
data, whose values may be unvalidated texts of a form; a text that is not a number fulfils no condition on numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.config.dotted import value_at

Data = Mapping[str, Any]
"""A configuration as nested data."""
Condition = Callable[[Data], bool]


@dataclass(frozen=True)
class NoEffect:
    """Settings of a section that cannot matter if all conditions hold.

    Attributes:
        conditions: predicates of the whole configuration.
        reason: a clause; {NAME} is replaced by the value of the dotted name, {kind} by the kind of the run.
        names: settings of the section; empty = all of them.
        except_for: settings that matter nevertheless.
    """

    conditions: tuple[Condition, ...]
    reason: str
    names: tuple[str, ...] = ()
    except_for: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
        """True if the rule is about this setting of its section."""
        return name in self.names if self.names else name not in self.except_for

    def reason_for(self, data: Data) -> str | None:
        """Return the reason if the settings have no effect, else None."""
        if not all(condition(data) for condition in self.conditions):
            return None
        reason = self.reason.replace("{kind}", _KINDS.get(str(value_at(data, "kind")), "this kind of run"))
        head, brace, tail = reason.partition("{")
        name, _, rest = tail.partition("}")
        return f"{head}{value_at(data, name)}{rest}" if brace else reason


_KINDS = {"train": "training", "evaluate": "an evaluation", "sft": "supervised fine-tuning"}


def is_one_of(name: str, values: Sequence[str]) -> Condition:
    """Test whether the setting has one of the values."""
    return lambda data: value_at(data, name) in values


def is_none_of(name: str, values: Sequence[str]) -> Condition:
    """Test whether the setting has another value."""
    return lambda data: value_at(data, name) not in values


def is_set(name: str) -> Condition:
    """Test whether the setting is neither empty nor off."""
    return lambda data: bool(value_at(data, name))


def is_empty(name: str) -> Condition:
    """Test whether the setting is empty or off."""
    return lambda data: not value_at(data, name)


def is_zero(name: str) -> Condition:
    """Test whether the number is zero."""
    return lambda data: _number(data, name) == 0


def is_above(name: str, limit: float) -> Condition:
    """Test whether the number is above the limit."""
    return lambda data: (number := _number(data, name)) is not None and number > limit


def _number(data: Data, name: str) -> float | None:
    try:
        return float(value_at(data, name))
    except (TypeError, ValueError):
        return None


TRAINS_NOT = is_none_of("kind", ("train",))
EVALUATES = is_one_of("kind", ("evaluate",))
ONLY_TRAINING = "only training uses it, not {kind}"
NOTHING_TRAINED = "an evaluation trains nothing"
HOSTED_ANSWERS = NoEffect((EVALUATES, is_set("hosted.url")), "the hosted model answers")
"""Rule of sections about a model of one's own."""
