"""Cells that another study has run with the same settings: their results count for this study, too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainer.config.files import load_stored
from trainer.config.run import RunConfig
from trainer.studies.grid import SETTINGS, Cell, ended


def reuse(cells: Sequence[Cell], folders: Sequence[Path]) -> list[Cell]:
    """Cells that have not begun take the folder of a complete run of another study with the same settings, if any.

    Runs are deterministic, so that a run repeated with the same settings on the same machine gives the same result.

    Args:
        cells: the grid.
        folders: of other studies, or above them.

    Raises:
        ValueError: one of the folders does not exist.
    """
    complete = _complete_runs(folders)
    return [
        cell
        if (cell.folder / SETTINGS).exists()
        else replace(cell, folder=complete.get(_key(cell.config), cell.folder))
        for cell in cells
    ]


def reused(cells: Sequence[Cell], out: Path) -> list[Cell]:
    """Those that are runs of other studies than the one in `out`."""
    return [cell for cell in cells if out not in cell.folder.parents]


def study_folder(cell: Cell) -> Path:
    """Folder of the study that ran the cell, OUT of OUT/<environment>/<arm>/seed-<n>."""
    return cell.folder.parents[2]


def _complete_runs(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders of the complete runs below these folders, by their settings."""
    found: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"--reuse {folder}: there is no such folder; name the --out of a study, or one above it")
        for path in sorted(folder.rglob(SETTINGS)):
            if ended(path.parent):
                config = load_stored(path)
                found.setdefault(_key(config), path.parent)
    return found


def _key(config: RunConfig) -> str:
    """Equal for runs that differ in nothing but their names."""
    return json.dumps({**config.stable_dump(), "name": ""}, sort_keys=True)
