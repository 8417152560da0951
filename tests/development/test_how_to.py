"""How-to pages: their Python blocks run, one page per process, and their assertions hold."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "development" / "how-to").glob("add-*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULE = re.compile(r"^from (trainer[.\w]*) import", re.MULTILINE)


def blocks(page: Path) -> str:
    """The page's Python blocks, joined with its line numbers, so that tracebacks name the line of the page."""
    text = page.read_text(encoding="utf-8")
    code, line = "", 1
    for match in BLOCK.finditer(text):
        start = text.count("\n", 0, match.start(1)) + 1
        code += "\n" * (start - line) + match[1]
        line = start + match[1].count("\n")
    return code


def test_every_page_is_listed() -> None:
    overview = (ROOT / "docs" / "development" / "how-to" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.name not in overview] == []
    assert len(PAGES) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    code = blocks(page)
    assert "assert " in code, "an example checks its outcome"
    script = tmp_path / f"{page.stem}.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_modules_that_a_page_imports_exist(page: Path) -> None:
    assert [name for name in MODULE.findall(blocks(page)) if importlib.util.find_spec(name) is None] == []


def environment() -> dict[str, str]:
    """Variables of the test process, with the repository on the path."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
