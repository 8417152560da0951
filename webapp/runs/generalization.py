"""Generalisation matrix of a run: storage of the journal's event, and data of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trainer.journal import events
from webapp.runs.models import GeneralizationMatrix, Run

SHADES = 10


def record_matrix(run: Run, event: events.Generalization) -> None:
    """Store the newest matrix of a run."""
    data = event.model_dump(mode="json")
    GeneralizationMatrix.objects.update_or_create(
        run=run,
        defaults={key: data[key] for key in ("seq", "policies", "suites", "cells")}
        | {"time": datetime.fromtimestamp(event.time, tz=UTC)},
    )


@dataclass(frozen=True)
class MatrixCell:
    """Result of one policy in one suite; `home`: it was trained in the suite's environment."""

    success: float
    low: float
    high: float
    mean_reward: float
    prompts: int
    samples: int
    home: bool
    best: bool

    @property
    def shade(self) -> int:
        """0 to SHADES, for the cell's class."""
        return round(self.success * SHADES)


@dataclass(frozen=True)
class MatrixRow:
    """Results of a policy in all suites; None where it was not evaluated."""

    name: str
    source: str
    trained_on: str
    cells: list[MatrixCell | None]


@dataclass(frozen=True)
class GeneralizationTable:
    """The matrix for the page."""

    suites: list[str]
    rows: list[MatrixRow]


def table(run: Run) -> GeneralizationTable | None:
    """Return the run's matrix, if there is one. One query."""
    matrix = GeneralizationMatrix.objects.filter(run=run).first()
    if matrix is None:
        return None
    cells = {(cell["policy"], cell["suite"]): cell for cell in matrix.cells}
    best = {
        suite: max((cell["success"] for (_, other), cell in cells.items() if other == suite), default=0.0)
        for suite in matrix.suites
    }
    rows = [
        MatrixRow(
            policy["name"],
            policy["source"],
            policy.get("trained_on") or "",
            [_cell(cells.get((policy["name"], suite)), policy, suite, best[suite]) for suite in matrix.suites],
        )
        for policy in matrix.policies
    ]
    return GeneralizationTable(matrix.suites, rows)


def _cell(cell: Mapping[str, Any] | None, policy: Mapping[str, Any], suite: str, best: float) -> MatrixCell | None:
    if cell is None:
        return None
    return MatrixCell(
        cell["success"],
        cell["success_low"],
        cell["success_high"],
        cell["mean_reward"],
        cell["prompts"],
        cell.get("samples", 1),
        policy.get("trained_on") == suite,
        0 < cell["success"] == best,
    )
