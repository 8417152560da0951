"""Names in one line, and without links."""

from __future__ import annotations

import pytest

from webapp.core.names import one_line, without_links


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", " a\x85b ", "a\u2028\u2029b", "a\t \x00 b"])
def test_a_name_is_one_line(text: str) -> None:
    assert one_line(text) == "a b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Alpha", "Alpha"),
        ("Sokoban v1.5, 62.5%", "Sokoban v1.5, 62.5%"),
        ("join https://evil.example.org/x?y#z now", "join … now"),
        ("javascript://x", "…"),
        ("see evil.example.org/path today", "see … today"),
        ("EVIL.EXAMPLE.ORG:8080", "…"),
        ("(evil.org)", "(…)"),
    ],
)
def test_a_subject_shows_no_links(text: str, shown: str) -> None:
    assert without_links(text) == shown
