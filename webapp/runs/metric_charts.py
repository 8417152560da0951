"""Charts of metrics on pages, drawn by the server; scripts only add the values below the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from trainer.metrics.charts import Axes, Series, fit_axes, plot, tick_labels
from trainer.metrics.spec import MetricSpec
from webapp.core import formatting
from webapp.runs.curves import ChartSpec


@dataclass(frozen=True)
class MetricChart:
    """A metric and its lines. `texts`: the values of each line as text, one for each of its points."""

    title: str
    spec: MetricSpec
    lines: Sequence[Series]
    texts: Sequence[Sequence[str]]
    left_out: int = 0
    """Lines that are not drawn."""

    @property
    def unit(self) -> str:
        """The unit, for the title; empty if it is written next to every value."""
        return ChartSpec(self.spec).unit_text

    @cached_property
    def axes(self) -> Axes:
        return fit_axes(self.lines, self.spec.unit)

    @property
    def svg(self) -> SafeString:
        """Contents of the drawing: elements that contain only numbers."""
        return mark_safe(plot(self.lines, self.axes))

    @property
    def up(self) -> list[str]:
        """Labels next to the drawing, from the top, evenly spaced."""
        return tick_labels(self.axes.ticks, self.spec.unit)[::-1]

    @property
    def across(self) -> list[str]:
        """Three or two evenly spaced labels below the drawing."""
        first, middle, last = map(self.axes.value, (0, 0.5, 1))
        return [formatting.whole(at) for at in ((first, middle, last) if middle % 1 == 0 else (first, last))]

    @property
    def legend(self) -> list[tuple[Series, str]]:
        """Each line with its last value."""
        return [(line, texts[-1]) for line, texts in zip(self.lines, self.texts, strict=True)]

    @property
    def description(self) -> str:
        """Text alternative to the drawing."""
        parts = [
            f"{line.label}: {texts[0]} at iteration {line.points[0][0]:g}, {texts[-1]} at iteration "
            f"{line.points[-1][0]:g}"
            for line, texts in zip(self.lines, self.texts, strict=True)
        ]
        return f"{self.title}. " + "; ".join(parts) if parts else f"{self.title}: no values yet."

    @property
    def readings(self) -> list[dict[str, Any]]:
        """Data of the read-out below the pointer: iteration, value as text, position in the drawing."""
        return [
            {
                "label": line.label,
                "points": [
                    [round(at), text, self.axes.x(at)] for (at, _), text in zip(line.points, texts, strict=True)
                ],
            }
            for line, texts in zip(self.lines, self.texts, strict=True)
        ]
