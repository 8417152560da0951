"""Checkouts with the real set-up and package indexes with small wheels, for tests without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from bootstrap import node, packages, uv
from bootstrap.torch_build import VERSION
from tests.patience import SECONDS

ROOT = Path(__file__).resolve().parents[2]
UNREACHABLE = "http://127.0.0.1:9"  # the port of the discard service, where nothing listens


class Index:
    """A package index in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.add(*packages.PIP.split("=="))

    @property
    def url(self) -> str:
        return f"{self.folder.as_uri()}/simple"

    def add(
        self, name: str, version: str, *requires: str, tag: str = "py3-none-any", files: Mapping[str, str] | None = None
    ) -> None:
        """Add a wheel with a module of the package's name, in which VERSION is its version."""
        wheel, about = f"{name}-{version}-{tag}.whl", f"{name}-{version}.dist-info"
        contents = {
            f"{name}.py": f"VERSION = {version!r}\n",
            f"{about}/METADATA": "\n".join(
                ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
                + [f"Requires-Dist: {requirement}" for requirement in requires]
            ),
            f"{about}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
            **{file.format(about=about): text for file, text in (files or {}).items()},
        }
        contents[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in [*contents, f"{about}/RECORD"])
        page = self.folder / "simple" / name.replace("_", "-")
        page.mkdir(parents=True, exist_ok=True)
        with ZipFile(page / wheel, "w") as archive:
            for file, text in contents.items():
                archive.writestr(file, text)
        links = [f'<a href="{path.name}">{path.name}</a>' for path in sorted(page.glob("*.whl"))]
        (page / "index.html").write_text("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>")


class Checkout:
    """A copy of bootstrap/ with lock files of its own. The index is given as users give it: in pip's configuration."""

    def __init__(self, folder: Path, index: Index) -> None:
        self.folder, self.python = folder, folder / ".venv" / "bin" / "python"
        shutil.copytree(ROOT / "bootstrap", folder / "bootstrap", ignore=shutil.ignore_patterns("__pycache__"))
        self.lock(run=f"torch=={VERSION}\nagent==1\n")
        for name in ("uPlot.iife.min.js", "uPlot.min.css", "uPlot.d.ts"):
            (folder / "node_modules/uplot/dist").mkdir(parents=True, exist_ok=True)
            (folder / "node_modules/uplot/dist" / name).touch()
        for name in node.TYPEFACES:
            package = folder / "node_modules/@fontsource-variable" / name
            (package / "files").mkdir(parents=True)
            (package / "files" / f"{name}-latin-wght-normal.woff2").touch()
            (package / "LICENSE").touch()
        (folder / "package-lock.json").write_text('{"packages": {"node_modules/uplot": {"version": "1"}}}')
        shutil.copyfile(folder / "package-lock.json", folder / "node_modules/.package-lock.json")
        uv.ensure()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "ECHOSCOPE_"))},
            "PATH": f"{Path(uv.argv('pip')[0]).parent}{os.pathsep}{os.environ['PATH']}",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": index.url,
            "ECHOSCOPE_TORCH": "cpu",
            "UV_CACHE_DIR": str(folder / "cache"),
            "UV_HTTP_RETRIES": "0",
            "HTTPS_PROXY": UNREACHABLE,  # so PyTorch's own index is unreachable
        }

    def lock(self, **locks: str) -> None:
        """Write lock files: names and contents."""
        (self.folder / "requirements").mkdir(exist_ok=True)
        for name, text in locks.items():
            (self.folder / "requirements" / f"{name}.txt").write_text(text)

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "bootstrap", *words]

    def make(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `make` there, with changed environment variables; empty ones are removed."""
        environment = {name: value for name, value in {**self.environment, **variables}.items() if value}
        return subprocess.run(
            self.argv(*words), cwd=self.folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )

    def version(self, module: str) -> str:
        """Version of an installed package; empty if it is absent."""
        code = f"import {module}; print({module}.VERSION)"
        # -B: bytecode of another version of the same size, packed within the same two seconds, would count as current.
        return subprocess.run([self.python, "-B", "-c", code], capture_output=True, text=True).stdout.strip()
