"""Texts in the tables of studies, and tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

NONE = "–"
UNSETTLED = "inconclusive"
"""Verdict that is neither yes nor no."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table. Cells may contain markup, except for bars and line breaks."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(one_line(text) for text in line) + " |" for line in lines)


def one_line(text: str) -> str:
    """Put a text in one line, with bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def p_value(p: float | None) -> str:
    """Format a p value with three decimals; a dash for None."""
    if p is None:
        return NONE
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def of_seeds(iterations: Sequence[int | None]) -> str:
    """Format the iterations of seeds that have one, as in “2 of 3: 17, 31”; a dash without seeds."""
    if not iterations:
        return NONE
    present = [str(value) for value in iterations if value is not None]
    return f"{len(present)} of {len(iterations)}{': ' + ', '.join(present) if present else ''}"


def share(value: float) -> str:
    """Format a share, 0 to 1, in per cent."""
    return f"{100 * value:.1f}%"


def signed(value: float, decimals: int = 1) -> str:
    """Format a difference with its sign, a true minus; one that rounds to zero has no sign."""
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def seconds_text(seconds: float) -> str:
    """Format a duration, in minutes if it is longer than a few of them."""
    return f"{seconds:.0f} s" if seconds < 180 else f"{seconds / 60:,.0f} min"


def spread(shares: Sequence[float]) -> str:
    """Format mean ± standard deviation of shares, 0 to 1, in per cent; a dash without any."""
    if not shares:
        return NONE
    around = f" ± {100 * stdev(shares):.1f}" if len(shares) > 1 else ""
    return f"{100 * fmean(shares):.1f}{around}%"
