"""The contract between trainer and site is defined in one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer.journal import protocol
from webapp.worker import parent_guard

ROOT = Path(__file__).parents[3]
LITERALS = {
    value: name
    for name, value in vars(protocol).items()
    if name.isupper() and value not in (protocol.ANY_TRAJECTORY, 0, 1, 2)
}
"""Of the contract, without values that are too common to search for."""
ELSEWHERE = {
    ("trainer/cli/publish.py", "adapter"),  # an option of the export
    ("trainer/publishing/model_card.py", "adapter"),  # a relation to the base model, in the words of the Hub
    ("webapp/worker/parent_guard.py", protocol.INTERRUPTED),  # imports only the standard library
    ("trainer/studies/catalogue.py", protocol.INTERRUPTED),  # a percentage
    ("webapp/pages/runs/curves_page.py", protocol.CHECKPOINTS_FOLDER),  # marks of a curve
    ("webapp/runs/models/result_models.py", protocol.CHECKPOINTS_FOLDER),  # a related name
}
"""Other uses of such a value, by file."""


def constants() -> Iterator[tuple[str, str, object]]:
    """(package, file, value) of every literal in trainer and site."""
    for package in ("trainer", "webapp"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name == "trainer/journal/protocol.py" or "/migrations/" in name:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str | int):
                    yield package, name, node.value


def test_contract_literals_are_not_repeated() -> None:
    repeated = {(name, value) for _, name, value in constants() if value in LITERALS}
    assert repeated - ELSEWHERE == set(), "import them from trainer.journal.protocol"
    assert repeated >= ELSEWHERE, "a listed exception no longer exists"


def test_checkpoint_paths_are_not_hardcoded() -> None:
    folder = f"{protocol.CHECKPOINTS_FOLDER}/"
    assert not [(name, value) for _, name, value in constants() if isinstance(value, str) and value.startswith(folder)]


@pytest.mark.parametrize("name", ["WATCH_FILE", "LIVE_FD", "ANY_TRAJECTORY", "INTERRUPTED", "BAD_CONFIGURATION"])
def test_both_sides_import_the_contract(name: str) -> None:
    for package in ("trainer", "webapp"):
        texts = (
            path.read_text(encoding="utf-8") for path in (ROOT / package).rglob("*.py") if path.name != "protocol.py"
        )
        assert any("trainer.journal.protocol" in text and name in text for text in texts), package


def test_the_guard_exits_as_an_interrupted_trainer_does() -> None:
    assert parent_guard.INTERRUPTED == protocol.INTERRUPTED


def test_checkpoints_sort_by_iteration() -> None:
    assert protocol.checkpoint_path(12) == "checkpoints/000012"
