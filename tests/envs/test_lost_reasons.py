"""Codes of the reasons why a state is lost: every sentence of the environments has its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from envs import lost_reasons
from envs.lost_reasons import LOST_REASONS, OTHER, lost_reason
from envs.sokoban.deadlocks import Deadlocks, unreachable_reason

ENVS = Path(lost_reasons.__file__).parent


def sentences() -> set[str]:
    """Literal reasons of unsolvable states in the source of the environments, without replaced parts."""
    found = set()
    for path in ENVS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "Hint":
                continue
            words = {word.arg: word.value for word in node.keywords}
            if getattr(words.get("solvable"), "value", "") != "no":
                continue
            reason = words.get("reason")
            if isinstance(reason, ast.Constant):
                found.add(str(reason.value))
            elif isinstance(reason, ast.JoinedStr):
                found.add(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "0.5" for part in reason.values)
                )
    return found


def test_every_sentence_of_an_environment_has_a_code() -> None:
    assert len(sentences()) >= 5
    for sentence in sentences():
        assert lost_reason(sentence) is not OTHER, sentence


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        (("#####", "#$  #", "#  .#", "#####"), "box_corner"),
        (("######", "#  $ #", "#   .#", "#    #", "######"), "box_wall"),
        (("######", "#    #", "# $$ #", "# .. #", "######"), ""),
    ],
)
def test_deadlocks_of_sokoban_have_codes(rows: tuple[str, ...], code: str) -> None:
    width = len(rows[0])
    cells = {y * width + x: character for y, row in enumerate(rows) for x, character in enumerate(row)}
    floor = frozenset(cell for cell, character in cells.items() if character != "#")
    boxes = tuple(cell for cell, character in cells.items() if character == "$")
    targets = frozenset(cell for cell, character in cells.items() if character == ".")
    reason = Deadlocks(width, floor, targets).reason(boxes)
    assert (lost_reason(reason).code if reason else "") == code


def test_all_reasons_of_the_deadlock_tests_have_codes() -> None:
    source = (ENVS / "sokoban" / "deadlocks.py").read_text(encoding="utf-8")
    returned = re.findall(r'return f?"([^"]+)"', source)
    assert len(returned) == 7
    for text in [re.sub(r"\{.*?\}", "the", text) for text in returned] + [unreachable_reason((1, 2))]:
        assert lost_reason(text) is not OTHER, text


def test_a_sentence_of_another_package_is_lost_otherwise() -> None:
    assert lost_reason("the king is mated") is OTHER


def test_codes_are_unique_and_fit_the_column() -> None:
    codes = [reason.code for reason in (*LOST_REASONS, OTHER)]
    assert len(set(codes)) == len(codes)
    assert max(map(len, codes)) <= 24
