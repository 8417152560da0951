"""Reuse of cells that another study ran with the same settings: their results also count for this study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainer.config.files import load_stored
from trainer.config.run import RunConfig
from trainer.studies.grid import SETTINGS, Cell, ended


def reuse(cells: Sequence[Cell], folders: Sequence[Path]) -> list[Cell]:
    """Replace cells that have not begun by complete runs of other studies with the same settings, if there are any.

    Runs are deterministic: a repetition with the same settings on the same machine gives the same result.

    Args:
        cells: the grid.
        folders: folders of other studies, or their parents.

    Raises:
        ValueError: a folder does not exist.
    """
    complete = _complete_runs(folders)
    return [
        cell
        if (cell.folder / SETTINGS).exists()
        else replace(cell, folder=complete.get(_key(cell.config), cell.folder))
        for cell in cells
    ]


def reused(cells: Sequence[Cell], out: Path) -> list[Cell]:
    """Return the cells that are runs of other studies than the one in `out`."""
    return [cell for cell in cells if out not in cell.folder.parents]


def study_folder(cell: Cell) -> Path:
    """Return the folder of the study that ran the cell, OUT of OUT/<environment>/<arm>/seed-<n>."""
    return cell.folder.parents[2]


def _complete_runs(folders: Sequence[Path]) -> dict[str, Path]:
    """Map settings to the folders of complete runs below these folders."""
    folder_by_settings: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"--reuse {folder}: there is no such folder; name the --out of a study, or one above it")
        for path in sorted(folder.rglob(SETTINGS)):
            if ended(path.parent):
                config = load_stored(path)
                folder_by_settings.setdefault(_key(config), path.parent)
    return folder_by_settings


def _key(config: RunConfig) -> str:
    """Return a key that is equal for runs that differ only in their names."""
    return json.dumps({**config.stable_dump(), "name": ""}, sort_keys=True)
