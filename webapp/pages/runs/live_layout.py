"""Sizes and texts of the live page before its scripts run."""

from __future__ import annotations

from math import ceil

from webapp.core.formatting import plural
from webapp.runs.models import Run

PITCH, COLUMNS, GROUP_GAP, EDGE = 30, 8, 6, 3
"""Pixels of a cell, cells per line, pixels between groups and around them; see static/js/live/rollout_grid.js."""
INTRO_COOKIE = "intro_seen"
"""Cookie of static/js/live/intro.js, set when the line is dismissed."""
CHARTS = {
    "success": ("success/rate",),
    "reward": ("reward/mean", "reward/in_group_std"),
    "entropy": ("entropy/mean",),
    "imitation": ("sft/loss", "sft/heldout_loss"),
    "gradient": ("policy/grad_norm",),
}
"""Chart of the live page → metrics that it draws; the chart of success draws evaluations as well."""
PLAYERS = ((10**9, "B"), (10**6, "M"), (10**3, "K"))


def wall_height(groups: int, size: int) -> int:
    """Return the height of the wall in pixels: a row for each group, of several lines for large groups."""
    if size == 1:
        return ceil(groups / (COLUMNS + 2)) * PITCH + 2 * EDGE
    lines = ceil(size / COLUMNS)
    return groups * (lines * PITCH + (GROUP_GAP if lines > 1 else 0)) + 2 * EDGE


def intro(run: Run) -> str:
    """Return a line for a first visit that describes the page."""
    size = next(
        (f"{run.parameters / unit:.0f}{letter}-parameter " for unit, letter in PLAYERS if run.parameters >= unit), ""
    )
    group_size = run.config.get("rollout", {}).get("group_size", 1)
    name = run.environment
    if not run.iterations and not run.iteration:
        doing = f"plays {name}".rstrip() if run.recorded is None else f"works on {name or 'a task'}"
    elif run.state not in Run.ENDED:
        doing = f"is learning {name}" if name else "is learning"
    else:
        doing = f"was trained on {name}" if name else "was trained"
    if run.config.get("kind") == "sft":
        return (
            f"A {size}language model {doing} from demonstrations. Each square is one attempt of an evaluation. "
            "Click any square to watch it think."
        )
    rows = f"; each row is one {run.task_noun} tried {group_size} times" if run.iterations and group_size > 1 else ""
    return f"A {size}language model {doing}. Each square is one attempt{rows}. Click any square to watch it think."


def has_attempts(run: Run) -> bool:
    """Return True if there are, or may be, attempts; another trainer's run must have sent some."""
    return run.recorded is None or run.groups.exists()


def recorded_text(run: Run) -> str:
    """Return a sentence about the data of a run without attempts; empty if it has recorded nothing yet."""
    has_metrics, evaluations = run.metrics.exists(), run.evaluations.count()
    recorded = ["metrics"] * has_metrics + [plural(evaluations, "evaluation")] * bool(evaluations)
    if not recorded:
        return ""
    curves = ", so this page shows its curves" if has_metrics else ""
    return f"This run has recorded {' and '.join(recorded)}, but no attempts that could be watched{curves}."


def is_judged(run: Run) -> bool:
    """Return True if success or reward, from which a result follows, was recorded."""
    judged = run.metrics.filter(name__in=(*CHARTS["success"], *CHARTS["reward"]))
    return judged.exists() or run.evaluations.exists()


def charts_without_data(run: Run) -> set[str]:
    """Return the charts that stay empty, with at most two queries.

    These are imitation in a run without demonstrations, and charts without metrics in another trainer's ended run.
    """
    if run.recorded is None or run.ended_at is None:
        return set() if run.warmup_steps or run.config.get("kind") == "sft" else {"imitation"}
    metrics = {name for names in CHARTS.values() for name in names}
    known = set(run.metrics.filter(name__in=metrics).order_by().values_list("name", flat=True).distinct())
    empty = {chart for chart, names in CHARTS.items() if not known.intersection(names)}
    return empty - {"success"} if run.evaluations.exists() else empty
