"""Counts of words that CONTRIBUTING.md's style avoids, per room: `python -m tests.development.dialect`.

Prose (docstrings, comments, pages) and identifiers of the tests are counted separately.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    "told": r"\btold\b",
    "whoever": r"\bwhoever\b",
    "somebody": r"\bsomebody\b",
    "everybody": r"\beverybody\b",
    "nobody": r"\bnobody\b",
    "anybody": r"\banybody\b",
    "'s business": r"'s business\b",
    "world": r"\bworlds?\b",
    "exam": r"\b(?:exams?|examined|examinations?)\b",
}
TEST_NAME_WORDS = WORDS | {
    "says": r"\bsays?\b",
    "said": r"\bsaid\b",
    "asks": r"\basks?\b",
    "asked": r"\basked\b",
    "hears": r"\b(?:hears?|heard)\b",
    "goes on": r"\b(?:go|goes|going) on\b",
}
"""Words of names in tests: a name has no other context in which such a verb could be literal."""
PATTERNS = {word: re.compile(pattern, re.IGNORECASE) for word, pattern in WORDS.items()}
TEST_NAME_PATTERNS = {word: re.compile(pattern, re.IGNORECASE) for word, pattern in TEST_NAME_WORDS.items()}
FOLDERS = ("bench", "bootstrap", "docs", "echoscope", "envs", "static/js", "tests", "trainer", "webapp")
JS_COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
OWN = {"tests/development/dialect.py", "tests/development/test_dialect.py"}


def room_of(path: Path) -> str:
    """The room of a file: at most two folders."""
    folders = path.relative_to(ROOT).parts[:-1]
    return "/".join(folders[: 3 if folders[:1] == ("static",) else 2]) or "."


def prose(path: Path) -> str:
    """Docstrings and comments of a module, comments of a script, or the text of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".js":
        return "\n".join(JS_COMMENT.findall(text))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    values = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    docstrings = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return "\n".join([*comments, *docstrings])


def defined_names(path: Path) -> str:
    """Functions, classes, arguments and assigned variables of a module, split at underscores and capitals."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append(node.id if isinstance(node, ast.Name) else node.attr)
    return "\n".join(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ") for name in names)


def files() -> Iterator[Path]:
    """Python modules, scripts and pages, without migrations, what pip builds and this check itself."""
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT)
            left_out = {"migrations", "build"} & set(name.parts) or str(name) in OWN
            if path.suffix in (".py", ".js", ".md") and not left_out:
                yield path


def counts() -> dict[str, Counter[str]]:
    """Occurrences in prose by room and word; rooms without any are left out."""
    return _counts(((path, prose(path)) for path in files()), PATTERNS)


def name_counts() -> dict[str, Counter[str]]:
    """Occurrences in names defined under tests/, by room and word; rooms without any are left out."""
    tests = (path for path in files() if path.suffix == ".py" and path.is_relative_to(ROOT / "tests"))
    return _counts(((path, defined_names(path)) for path in tests), TEST_NAME_PATTERNS)


def _counts(texts: Iterable[tuple[Path, str]], patterns: dict[str, re.Pattern[str]]) -> dict[str, Counter[str]]:
    result: dict[str, Counter[str]] = {}
    for path, text in texts:
        for word, pattern in patterns.items():
            if number := len(pattern.findall(text)):
                result.setdefault(room_of(path), Counter())[word] += number
    return result


def table(by_room: dict[str, Counter[str]], words: Iterable[str]) -> str:
    """The counts as a Markdown table, most frequent room first."""
    columns = list(words)
    rows = [f"| room | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    rooms = sorted(by_room, key=lambda name: -by_room[name].total())
    rows += [f"| {room} | {' | '.join(str(by_room[room][word] or '') for word in columns)} |" for room in rooms]
    total = sum(by_room.values(), Counter())
    rows.append(f"| **all** | {' | '.join(str(total[word]) for word in columns)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(f"Prose\n\n{table(counts(), WORDS)}\n\n")
    sys.stdout.write(f"Names in tests\n\n{table(name_counts(), TEST_NAME_WORDS)}\n")
