"""Checks options of `reset`: names that an environment does not take are errors, as they would have no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVERYWHERE = "dynamics_seed"
"""Option of all environments; an environment without later randomness ignores it."""


def read_options(options: Mapping[str, Any] | None, *groups: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a reset.

    Args:
        groups: names that the environment takes; the names of a group are only valid together.

    Raises:
        ValueError: an unknown name, or an incomplete group. The message contains the names.
    """
    given = dict(options or {})
    known = [*(name for group in groups for name in group), EVERYWHERE]
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"reset has no option {_listed(unknown)} here: it takes {_listed(known)}")
    for group in groups:
        present = [name for name in group if name in given]
        if present and len(present) < len(group):
            missing = [name for name in group if name not in given]
            raise ValueError(f"the option {_listed(present)} of reset needs {_listed(missing)} as well")
    return given


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
