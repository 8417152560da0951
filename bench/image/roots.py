"""Root folders in place of images: made by debootstrap, changed by chroot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SUITE = "bookworm"
_ESSENTIAL = ("/proc", "/dev")
_BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Root:
    """A stage's file system and what its instructions have set."""

    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": _BASE_PATH})
    workdir: str = "/"
    user: str = "root"
    command: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """Values of build arguments."""

    def inside(self, path: str) -> Path:
        """Where a path of the stage, absolute or from its working directory, lies on this machine."""
        return self.folder / os.path.normpath(os.path.join(self.workdir, path)).lstrip("/")


def check_machine() -> None:
    """Raise SystemExit with what is missing: roots are made by root, with debootstrap."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise SystemExit("bench.image changes root folders, so it runs on Linux as root.")
    for program in ("debootstrap", "chroot", "unshare"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} was not found: apt-get install debootstrap util-linux coreutils.")


def bootstrap(folder: Path) -> None:
    """A Debian with Python and nothing else, in place of the image python:…-slim."""
    packages = "python3,python3-venv,ca-certificates"
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (folder / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")


def copy(source: Path, target: Path) -> None:
    """A copy of a root or folder that keeps owners and links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True)


def process(
    root: Root,
    command: Sequence[str],
    *,
    mounts: Sequence[Path] = (),
    variables: Mapping[str, str] | None = None,
    user: str = "root",
) -> list[str]:
    """The command line that runs a command inside a root, with /proc, /dev and further folders mounted meanwhile.

    Args:
        root: where it runs, with its environment and working directory.
        command: program and arguments.
        mounts: folders of this machine, seen read-only under the same path.
        variables: added to the environment.
        user: who runs it.
    """
    steps = ["set -e"]
    for path in [*_ESSENTIAL, *map(str, mounts)]:
        inside = f"{root.folder}{path}"
        steps += [
            f"[ -f '{path}' ] && {{ mkdir -p '{Path(inside).parent}'; touch '{inside}'; }} || mkdir -p '{inside}'"
        ]
        steps += [f"mount --rbind '{path}' '{inside}'"]
        if path not in _ESSENTIAL:
            steps += [f"mount -o remount,ro,bind '{inside}'"]
    environment = {"HOME": "/root" if user == "root" else f"/home/{user}", **root.environment, **(variables or {})}
    pairs = [f"{name}={value}" for name, value in environment.items()]
    steps += ['exec chroot --userspec="$1" "$2" env -i --chdir="$3" "${@:4}"']
    return [
        "unshare",
        "--mount",
        *("bash", "-c", "\n".join(steps), "bash", user, str(root.folder), root.workdir, *pairs, *command),
    ]


def megabytes(folder: Path) -> int:
    """Size of a folder's files, in MB (10⁶ bytes)."""
    listed = subprocess.run(["du", "-s", "-x", "--block-size=1000000", str(folder)], check=True, capture_output=True)
    return int(listed.stdout.split()[0])
