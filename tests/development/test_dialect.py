"""Words that CONTRIBUTING.md's style avoids do not come back."""

from __future__ import annotations

import pytest

from tests.development import dialect

MAX_OCCURRENCES = {
    "told": 49,
    "whoever": 12,
    "somebody": 28,
    "everybody": 8,
    "nobody": 28,
    "anybody": 2,
    "'s business": 5,
    "world": 18,
    "exam": 11,
}
"""Upper bounds; lower them whenever the counts fall."""


@pytest.mark.parametrize("word", dialect.WORDS)
def test_a_discouraged_word_does_not_become_more_frequent(word: str) -> None:
    rooms = {room: counter[word] for room, counter in dialect.counts().items() if counter[word]}
    assert sum(rooms.values()) <= MAX_OCCURRENCES[word], f"new occurrences of {word!r}; by room: {rooms}"


def test_a_comment_counts_and_a_string_of_the_program_does_not(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(dialect, "ROOT", tmp_path)
    module = tmp_path / "trainer" / "one.py"
    module.parent.mkdir()
    module.write_text('"""Whoever asks."""\nTEXT = "nobody"  # told\n', encoding="utf-8")
    assert dialect.counts() == {"trainer": {"whoever": 1, "told": 1}}
