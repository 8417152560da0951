"""Filter fields of the trajectory explorer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from django import template

from webapp.explorer.rows import Field

register = template.Library()


@register.inclusion_tag("runs/_trajectories_range.html")
def range_filter(
    form: Mapping[str, Field], name: str, label: str, mode: Literal["numeric", "text"] = "numeric"
) -> dict[str, Any]:
    """Two inputs, the fields `<name>_min` and `<name>_max` of the form; `mode` is their `inputmode`."""
    return {"label": label, "low": form[f"{name}_min"], "high": form[f"{name}_max"], "mode": mode}


@register.inclusion_tag("runs/_trajectories_yes_no.html")
def yes_no_filter(field: Field, label: str, yes: str, no: str) -> dict[str, Any]:
    """A select of any, yes and no, with the labels of the latter two."""
    return {"field": field, "label": label, "yes": yes, "no": no}
