"""Words that CONTRIBUTING.md's style avoids do not come back."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.development import dialect

MAX_OCCURRENCES = {
    "told": 0,
    "whoever": 0,
    "somebody": 0,
    "everybody": 0,
    "nobody": 1,
    "anybody": 0,
    "'s business": 0,
    "world": 2,
    "exam": 0,
}
"""Upper bounds for prose; lower them whenever the counts fall."""

MAX_NAMES = {
    "told": 0,
    "whoever": 0,
    "somebody": 0,
    "everybody": 0,
    "nobody": 0,
    "anybody": 0,
    "'s business": 0,
    "world": 2,
    "exam": 0,
    "says": 0,
    "said": 0,
    "asks": 0,
    "asked": 0,
    "hears": 0,
    "goes on": 0,
}
"""Upper bounds for names in tests."""


@pytest.fixture(scope="module")
def prose_counts() -> dict[str, Counter[str]]:
    return dialect.counts()


@pytest.fixture(scope="module")
def name_counts() -> dict[str, Counter[str]]:
    return dialect.name_counts()


@pytest.mark.parametrize("word", dialect.WORDS)
def test_a_discouraged_word_does_not_become_more_frequent(word: str, prose_counts: dict[str, Counter[str]]) -> None:
    rooms = {room: counter[word] for room, counter in prose_counts.items() if counter[word]}
    assert sum(rooms.values()) <= MAX_OCCURRENCES[word], f"new occurrences of {word!r}; by room: {rooms}"


@pytest.mark.parametrize("word", dialect.TEST_NAME_WORDS)
def test_a_discouraged_word_does_not_become_more_frequent_in_test_names(
    word: str, name_counts: dict[str, Counter[str]]
) -> None:
    rooms = {room: counter[word] for room, counter in name_counts.items() if counter[word]}
    assert sum(rooms.values()) <= MAX_NAMES[word], f"new names with {word!r}; by room: {rooms}"


def test_a_comment_counts_and_a_string_of_the_program_does_not(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(dialect, "ROOT", tmp_path)
    module = tmp_path / "trainer" / "one.py"
    module.parent.mkdir()
    module.write_text('"""Whoever asks."""\nTEXT = "nobody"  # told\n', encoding="utf-8")
    assert dialect.counts() == {"trainer": {"whoever": 1, "told": 1}}


def test_names_of_tests_are_split_into_words(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(dialect, "ROOT", tmp_path)
    for folder in ("tests/trainer", "trainer"):
        module = tmp_path / folder / "test_one.py"
        module.parent.mkdir(parents=True)
        module.write_text(
            "class WorldServer:\n    def test_a_run_goes_on(self, told):\n        self.asked = foretold = told\n",
            encoding="utf-8",
        )
    assert dialect.name_counts() == {"tests/trainer": {"world": 1, "goes on": 1, "told": 1, "asked": 1}}
