"""Every command of trainer and client in the documentation is accepted as it is typed there, with its settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from echoscope import cli as client
from trainer.cli import main as trainer
from trainer.cli.parser import parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = {
    ("python", "-m", "trainer"): "trainer",
    ("python", "-m", "echoscope"): "echoscope",
    ("echoscope",): "echoscope",
}
PREPARED = ("train", "sft", "evaluate", "estimate-memory", "demonstrate", "environments", "study")
"""Commands that check their settings before anything starts."""
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|=N$|^N$")
"""Words that the reader replaces, as in `--policy RUN`; the others have to be right as they are."""
OTHER_PACKAGES = re.compile("ReasoningGym|TextArena|Verifiers|OpenEnv")
"""Environments that are not installed here; `test_documented_commands` of the adapters runs their commands."""


def documented(page: Path) -> list[tuple[str, tuple[str, ...]]]:
    """(program, arguments) of the commands in the page's code blocks."""
    found = []
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            words = _words(line)
            for start, program in PROGRAMS.items():
                if words[: len(start)] == start and len(words) > len(start):
                    found.append((program, words[len(start) :]))
    return found


def _words(line: str) -> tuple[str, ...]:
    """The words of a shell line up to a pipe, without variables before the program.

    None of other text, and of a synopsis with optional parts in brackets.
    """
    try:
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
    except ValueError:
        return ()
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    end = next((at for at, word in enumerate(words) if word in ("|", "&&", ">", "&", ";")), len(words))
    return () if any(word.startswith("[-") for word in words) else tuple(words[:end])


COMMANDS = sorted({(page.relative_to(ROOT).as_posix(), *command) for page in PAGES for command in documented(page)})


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of runs are created here, and the test process keeps its signal handlers."""
    (tmp_path / "mine.yaml").write_text("environment: {name: Sokoban}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)


@pytest.mark.parametrize(("page", "program", "words"), COMMANDS)
def test_documented_commands_are_accepted(page: str, program: str, words: tuple[str, ...], tmp_path: Path) -> None:
    words = tuple(re.sub(r"^/tmp/", f"{tmp_path}/", word) for word in words)
    if program == "echoscope":
        client._parser().parse_args(words)
        return
    arguments = parser().parse_args(words)
    unknown = re.compile(f"{PLACEHOLDER.pattern}|{OTHER_PACKAGES.pattern}")
    if arguments.command in PREPARED and not any(unknown.search(word) for word in words):
        trainer.prepare(arguments)


def test_commands_are_found_in_many_pages() -> None:
    assert len({page for page, _, _ in COMMANDS}) >= 10
    assert len(COMMANDS) >= 50
