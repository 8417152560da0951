"""Specification of a metric, and constructors for the rows of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

Section = Literal[
    "reward",
    "training use",
    "imitation",
    "policy",
    "critic",
    "exploration",
    "length",
    "throughput",
    "evaluation",
    "hosted",
    "mismatch",
    "echo trap",
    "system",
    "watched",
]
Better = Literal["up", "down", "none"]
Unit = Literal[
    "",
    "share",
    "nats",
    "tokens",
    "turns",
    "actions",
    "seconds",
    "tokens/s",
    "steps",
    "groups",
    "rounds",
    "iterations",
    "updates",
    "trajectories",
    "requests",
    "bytes",
    "%",
]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""Sections in display order."""


@dataclass(frozen=True)
class MetricSpec:
    """Title, meaning, unit and range of a metric. `low` and `high` bound its values; None = unbounded."""

    name: str
    title: str
    section: Section
    meaning: str
    unit: Unit = ""
    low: float | None = None
    high: float | None = None
    better: Better = "none"
    decimals: int = 3

    def text(self, value: float) -> str:
        """Format a value: shares as percentages, bytes in binary units, other units after the number."""
        if self.unit == "share":
            return f"{100 * value:.{max(self.decimals - 2, 0)}f}%"
        if self.unit == "bytes":
            return bytes_text(value)
        number = f"{value:,.{self.decimals}f}"
        if self.unit == "%":
            return f"{number}%"
        return f"{number} {self.unit}" if self.unit else number

    def reading(self, value: float) -> str:
        """Format a value for display below a title that states its unit; small values in scientific notation."""
        if self.unit != "share" and value and abs(value) < 0.5 * 10.0**-self.decimals:
            text = f"{value:.1e}"
        else:
            text = self.text(value).removesuffix(f" {self.unit}" if self.unit and self.unit != "share" else "\0")
        return text.replace("-", "−")


def bytes_text(count: float) -> str:
    """Format a number of bytes, e.g. "1.5 GiB"."""
    size, units = abs(count), ("B", "KiB", "MiB", "GiB", "TiB")
    at = 0
    while size >= 1024 and at < len(units) - 1:
        size, at = size / 1024, at + 1
    return f"{'-' if count < 0 else ''}{size:.{1 if at else 0}f} {units[at]}"


def spec(
    name: str, title: str, section: Section, meaning: str, unit: Unit = "", better: Better = "none", decimals: int = 3
) -> MetricSpec:
    """Create a row of the table with a range that follows from its unit: shares in [0, 1], counts and times from 0."""
    low = None if unit in ("", "nats") else 0.0
    high = 1.0 if unit == "share" else None
    return MetricSpec(name, title, section, meaning, unit, low, high, better, decimals)


def positive(spec: MetricSpec) -> MetricSpec:
    """Restrict the row to values from 0."""
    return replace(spec, low=0.0, high=None)
