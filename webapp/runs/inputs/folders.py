"""Folders of the worker whose files runs of this site may read, as listed by its operator.

Other teams' runs have their files on the same machine, so runs must not name arbitrary files. The trainer's command
line has no such restriction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from trainer.paths import POCKET_CHECKPOINT

MAX_QUOTED = 200
"""Characters of a path that messages repeat."""


@dataclass(frozen=True)
class FolderList:
    """A list of folders: the variable that sets it, a description of their contents, and shipped folders."""

    variable: str
    content: str
    shipped: tuple[Path, ...] = ()

    @property
    def listed(self) -> list[Path]:
        """The operator's folders; entries that are not absolute are ignored."""
        paths: Sequence[str] = getattr(settings, self.variable)
        return [Path(path) for path in paths if Path(path).is_absolute()]

    def problem(self, text: str) -> str:
        """Return the reason why runs may not read the file or folder named by a text; empty if they may.

        Only paths that look allowed are looked up on the disk, to find symbolic links that lead elsewhere.
        """
        path = Path(text)
        near = [root for root in (*self.listed, *self.shipped) if path.is_relative_to(root)]
        if not near or not text.isprintable() or ".." in path.parts:
            return self._refusal(text)
        try:
            real = path.resolve()
            inside = [root for root in near if real.is_relative_to(root.resolve())]
        except (OSError, RuntimeError, ValueError):  # a circle of links, or an impossible name
            return self._refusal(text)
        return "" if any(not _holds_data_of_site(real, root.resolve()) for root in inside) else self._refusal(text)

    def _refusal(self, text: str) -> str:
        listed = ", ".join(str(path) for path in self.listed)
        choice = f" below {listed}" if listed else f", once its operator has listed folders in {self.variable}"
        return f"runs of this site may not read {text[:MAX_QUOTED]!r}: name {self.content} by its absolute path{choice}"


def _holds_data_of_site(path: Path, root: Path) -> bool:
    """Return True if a path leads to, or contains, runs of other teams, the site's secret key or its database.

    A folder inside the data folder may be listed, except for the runs; a folder above it does not include it.
    """
    data = Path(settings.ECHOSCOPE_DATA_DIR).resolve()
    runs = data / "runs"
    if path.is_relative_to(runs) or runs.is_relative_to(path):
        return True
    return path.is_relative_to(data) and data.is_relative_to(root)


DATA = FolderList("ECHOSCOPE_DATA_FOLDERS", "a file or folder of data")
MODELS = FolderList("ECHOSCOPE_MODEL_FOLDERS", "a folder with a transformers checkpoint", (POCKET_CHECKPOINT,))
