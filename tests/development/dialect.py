"""Counts of words that CONTRIBUTING.md's style avoids, per room: `python -m tests.development.dialect`."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
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
PATTERNS = {word: re.compile(pattern, re.IGNORECASE) for word, pattern in WORDS.items()}
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


def files() -> Iterator[Path]:
    """Python modules, scripts and pages, without migrations and this check itself."""
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT)
            if path.suffix in (".py", ".js", ".md") and "migrations" not in name.parts and str(name) not in OWN:
                yield path


def counts() -> dict[str, Counter[str]]:
    """Occurrences by room and word; rooms without any are left out."""
    result: dict[str, Counter[str]] = {}
    for path in files():
        text = prose(path)
        for word, pattern in PATTERNS.items():
            if number := len(pattern.findall(text)):
                result.setdefault(room_of(path), Counter())[word] += number
    return result


def totals() -> Counter[str]:
    """Occurrences by word."""
    return sum(counts().values(), Counter())


def table() -> str:
    """The counts as a Markdown table, most frequent room first."""
    by_room = counts()
    rows = [f"| room | {' | '.join(WORDS)} |", f"| --- |{' ---: |' * len(WORDS)}"]
    rooms = sorted(by_room, key=lambda name: -by_room[name].total())
    rows += [f"| {room} | {' | '.join(str(by_room[room][word] or '') for word in WORDS)} |" for room in rooms]
    all_rooms = totals()
    rows.append(f"| **all** | {' | '.join(str(all_rooms[word]) for word in WORDS)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
