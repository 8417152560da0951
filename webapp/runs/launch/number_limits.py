"""Limits of settings as text, for their help and for messages about values outside of the limits."""

from __future__ import annotations

from typing import Any

import annotated_types
from pydantic.fields import FieldInfo

UPPER_ERRORS = ("less_than", "less_than_equal")
LIMIT_ERRORS = ("greater_than", "greater_than_equal", *UPPER_ERRORS)
NUMBER_ERRORS = ("int_parsing", "int_type", "int_from_float", "float_parsing", "float_type")
"""Types of pydantic's errors about numbers."""


def number_wanted(info: FieldInfo, error: str, *, integer: bool) -> str:
    """Describe the numbers that a field takes, e.g. “must be a whole number above 0”. `error`: pydantic's type.

    Names the upper limit if the value is above it, and the lower limit otherwise.
    """
    kind = "a whole number" if integer else "a number"
    upper, lower = "", ""
    for limit in info.metadata:
        match limit:
            case annotated_types.Le():
                upper = f" of at most {_bound(limit.le)}"
            case annotated_types.Lt():
                upper = f" below {_bound(limit.lt)}"
            case annotated_types.Ge():
                lower = f" of at least {_bound(limit.ge)}"
            case annotated_types.Gt():
                lower = f" above {_bound(limit.gt)}"
    return f"must be {kind}{upper if error in UPPER_ERRORS else lower}"


def help_with_limits(info: FieldInfo) -> str:
    """Return the field's help with its limits."""
    limits = []
    for limit in info.metadata:
        match limit:
            case annotated_types.Ge(ge=bound):
                limits.append(f"at least {_bound(bound)}")
            case annotated_types.Gt(gt=bound):
                limits.append(f"above {_bound(bound)}")
            case annotated_types.Le(le=bound):
                limits.append(f"at most {_bound(bound)}")
            case annotated_types.Lt(lt=bound):
                limits.append(f"below {_bound(bound)}")
    help = info.description or ""
    return f"{help.rstrip('.')} ({', '.join(limits)})." if limits else help


def _bound(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
