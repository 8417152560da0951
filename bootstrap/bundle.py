"""Bundles the scripts of the pages with esbuild, under the addresses of their sources: a page then loads few files.

`python -m bootstrap.bundle` writes them to build/static, which static files are found in first (webapp/settings.py). In
debug mode, and where esbuild is not installed, pages load the modules of static/js themselves.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bootstrap.progress import ROOT, SetupError

SOURCES = ROOT / "static"
TARGET = ROOT / "build" / "static"
PROGRAM = "node_modules/@esbuild/*/bin/esbuild"  # without Node, in the package of this platform
SITE = "js/pages/site.js"  # script of every page that extends base.html
_NAMED = re.compile(r'{% static "(js/[^"]+\.js)" %}')


def entry_points() -> dict[str, str]:
    """Code of each script that a template names, by its path inside static/.

    Scripts of pages that extend base.html import the script of the site: esbuild, which makes one file of all modules
    that the same pages load, then needs few files for modules that the site's script has anyway.
    """
    documents, parts = set[str](), set[str]()
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        (documents if "<html" in text else parts).update(_NAMED.findall(text))
    site = f'import "{(SOURCES / SITE).as_posix()}";\n'
    return {
        name: f'{"" if name in documents else site}import "{(SOURCES / name).as_posix()}";\n'
        for name in documents | parts
    }


def bundle(target: Path = TARGET) -> None:
    """Write the bundles; files that have not changed are not touched.

    Raises:
        SetupError: a script has an error.
    """
    program = next(ROOT.glob(PROGRAM), None)
    if program is None:
        shutil.rmtree(target, ignore_errors=True)  # bundles of older scripts
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        entries, output = Path(folder, "entries"), Path(folder, "output")
        for name, code in entry_points().items():
            (entries / name).parent.mkdir(parents=True, exist_ok=True)
            (entries / name).write_text(code, encoding="utf-8")
        argv = [str(program), *sorted(map(str, entries.rglob("*.js"))), "--bundle", "--splitting", "--minify"]
        argv += ["--format=esm", "--target=es2022", f"--outbase={entries}", f"--outdir={output}"]
        argv += ["--chunk-names=js/chunks/[name]-[hash]", "--log-level=warning"]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            raise SetupError(f"The scripts of the pages could not be bundled.\n{done.stderr.strip()}")
        _synchronise(output, target)


def _synchronise(source: Path, target: Path) -> None:
    """Make `target` a copy of `source`. Unchanged files keep their time, by which new static files are recognised."""
    names = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    for old in [path for path in target.rglob("*") if path.is_file() and path.relative_to(target) not in names]:
        old.unlink()
    for name in names:
        data, file = (source / name).read_bytes(), target / name
        if not file.is_file() or file.read_bytes() != data:
            file.parent.mkdir(parents=True, exist_ok=True)
            (source / name).replace(file)


if __name__ == "__main__":
    bundle()
