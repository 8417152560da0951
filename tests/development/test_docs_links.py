"""Documentation: links and their anchors resolve, and files and folders named in pages and docstrings exist."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
TOP = r"(?:bench|bootstrap|docs|echoscope|envs|static|templates|tests|trainer|webapp)"
FILE = re.compile(rf"(?<![\w./<-])({TOP}/[\w./-]+\.(?:py|js|html|css|md|yaml|json|svg))\b")
CODE = ("bench", "bootstrap", "echoscope", "envs", "trainer", "webapp", "tests")
FOLDER = re.compile(rf"`({TOP}/[\w./-]*/)`")
ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
EXAMPLES = {"tests/path/test_file.py"}
GENERATED = ("static/vendor/",)


def tracked(suffix: str, *folders: str) -> list[Path]:
    """Files of the repository with a suffix, without migrations."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [
        ROOT / name for name in names if name.endswith(suffix) and "migrations" not in name and (ROOT / name).exists()
    ]


def docstrings(path: Path) -> Iterator[str]:
    """Docstrings of a module, its classes and functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def missing(text: str) -> list[str]:
    """Files named in a text that do not exist."""
    names = FILE.findall(text)
    return [n for n in names if n not in EXAMPLES and not n.startswith(GENERATED) and not (ROOT / n).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_files_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [
        target
        for target in LINK.findall(FENCED.sub("", text))
        if "://" not in target and not target.startswith(("mailto:", "/"))
    ]
    assert [target for target in targets if not (page.parent / target).exists()] == []
    assert missing(text) == []


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub derives them: lower case, without punctuation, hyphens for spaces."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_of_links_are_headings(page: Path) -> None:
    links = ANCHOR.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    targets = [(page.parent / name if name else page, anchor) for name, anchor in links if "://" not in name]
    assert [(target.name, anchor) for target, anchor in targets if anchor not in anchors(target)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_folders_named_in_a_page_exist(page: Path) -> None:
    names = FOLDER.findall(page.read_text(encoding="utf-8"))
    assert [name for name in names if not (ROOT / name).is_dir()] == []


@pytest.mark.parametrize("folder", CODE)
def test_files_named_in_docstrings_exist(folder: str) -> None:
    wrong = {}
    for path in tracked(".py", folder):
        names = [name for text in docstrings(path) for name in missing(text)]
        if names:
            wrong[str(path.relative_to(ROOT))] = names
    assert wrong == {}


def test_files_named_in_scripts_exist() -> None:
    wrong = {}
    for path in tracked(".js", "static/js"):
        if names := missing(path.read_text(encoding="utf-8")):
            wrong[str(path.relative_to(ROOT))] = names
    assert wrong == {}
