"""Checks options of `reset`: names that an environment does not take, and values of another type, are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Literal

Kind = Literal["a text", "a whole number", "a list of whole numbers", "anything"]
EVERYWHERE = "dynamics_seed"
"""Option of all environments; an environment without later randomness ignores it."""


def read_options(options: Mapping[str, Any] | None, *groups: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the options of a reset.

    Args:
        groups: names that the environment takes, with the kinds of their values; the names of a group are only valid
            together.

    Raises:
        ValueError: an unknown name, an incomplete group, or a value of another kind. The message contains the names.
    """
    given = dict(options or {})
    if given.get(EVERYWHERE, 0) is None:
        del given[EVERYWHERE]
    kinds: dict[str, Kind] = {name: kind for group in groups for name, kind in group.items()}
    kinds[EVERYWHERE] = "a whole number"
    if unknown := [name for name in given if name not in kinds]:
        raise ValueError(f"reset has no option {_listed(unknown)} here: it takes {_listed(list(kinds))}")
    for group in groups:
        present = [name for name in group if name in given]
        if present and len(present) < len(group):
            missing = [name for name in group if name not in given]
            raise ValueError(f"the option {_listed(present)} of reset needs {_listed(missing)} as well")
    for name, value in given.items():
        if not _is(value, kinds[name]):
            raise ValueError(f"the option {name} of reset must be {kinds[name]}, not {value!r:.100}")
    return given


def _is(value: Any, kind: Kind) -> bool:
    match kind:
        case "a text":
            return isinstance(value, str)
        case "a whole number":
            return isinstance(value, Integral) and not isinstance(value, bool)
        case "a list of whole numbers":
            listed = isinstance(value, Sequence) and not isinstance(value, str)
            return listed and all(_is(item, "a whole number") for item in value)
    return True


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
