"""A separate disk for the data folder of the soak test, which can be filled and freed: a tmpfs, mounted as root."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

SIZE = 6 * 2**30
"""Size in bytes: enough for the runs of 500 disturbances (3 GiB). While the disk is full, it takes as much memory."""
FILLER = "filler"
_STEPS = (64 * 2**20, 2**20, 4096)


class SmallDisk:
    """A mounted tmpfs. Only its used pages are in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def mount(cls, folder: Path, size: int = SIZE) -> SmallDisk | None:
        """Create the folder and mount a disk of `size` bytes there. Returns None if that is not permitted."""
        folder.mkdir(parents=True)
        argv = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "echoscope-soak", str(folder)]
        try:
            done = subprocess.run(argv, capture_output=True, check=False)
        except FileNotFoundError:
            return None
        return None if done.returncode else cls(folder)

    def fill(self) -> None:
        """Fill the disk to the last block."""
        with (self.folder / FILLER).open("wb") as file:
            end = 0
            for step in _STEPS:
                try:
                    while True:
                        os.posix_fallocate(file.fileno(), end, step)
                        end += step
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free_bytes(self) -> int:
        """Return the free bytes."""
        return shutil.disk_usage(self.folder).free

    def free(self) -> None:
        """Delete what `fill` wrote."""
        (self.folder / FILLER).unlink(missing_ok=True)

    def unmount(self, keep: Path | None = None) -> None:
        """Unmount the disk and copy its files to `keep` first; without it they are lost."""
        self.free()
        if keep is not None:
            shutil.copytree(self.folder, keep, symlinks=True, ignore_dangling_symlinks=True)
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True, capture_output=True)
