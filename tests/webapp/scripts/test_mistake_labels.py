"""Lines of a text that a mistake is about: the browser and the pictures choose the same."""

from __future__ import annotations

import pytest

from tests.webapp.javascript import evaluate
from webapp.trajectories.render.mistake_label import fault_line


@pytest.mark.parametrize(
    ("text", "played", "line"),
    [
        ("Target  24\nNumbers 3 8\n\n3 + 8 = 11", "3 + 8", 3),
        ("Which?\n\n7: wrong\n9: wrong\n7: wrong", " 7 ", 4),
        ("Which?", "7", -1),
        ("Which?", "", -1),
        (f"Which?\n{'9' * 80}…: wrong", "9" * 200, 1),
    ],
)
def test_the_last_line_with_the_answer_is_the_wrong_one(text: str, played: str, line: int) -> None:
    lines = text.splitlines()
    assert fault_line(lines, played) == line
    data = {"lines": lines, "played": played}
    assert evaluate("board/mistake_labels.js", "faultLine(data.lines, data.played)", data) == line
