"""Choice of the cases that run for every commit; `make test-all` runs the others as well."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def nightly_but(values: Iterable[Any], every_commit: Collection[Any]) -> list[ParameterSet]:
    """Return the values as parameters of a test, of which only those in `every_commit` run for every commit."""
    return [pytest.param(value, marks=() if value in every_commit else pytest.mark.nightly) for value in values]
