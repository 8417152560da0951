"""Regular expressions over responses, and the scanners that are shipped as views."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from tests.webapp import journal_builder
from tests.webapp.page_requests import Visitors, who
from webapp.explorer.scanners import SCANNERS
from webapp.explorer.trajectory_filters import Filters, filter_trajectories
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.trajectories.models import Turn

__all__ = ["who"]

SAID = {
    "Text after the answer": "<think>a</think><answer>Up</answer> Good luck!",
    "Several answers": "<think>a</think><answer>Up</answer><answer>Down</answer>",
    "Empty thought": "<think> \n</think><answer>Up</answer>",
    "Placeholder for a thought": "<think>[Your thoughts]</think><answer>Up</answer>",
    "Repeats a word": "<think>push push push push push it</think><answer>Up</answer>",
    "Repeats a line": "<think>I go up now\nI go up now\nI go up now\n</think><answer>Up</answer>",
    "Another script": "<think>я иду вверх</think><answer>Up</answer>",
    "Writes about its reward": "<think>That gives the Reward.</think><answer>Up</answer>",
}
CLEAN = "<think>The box is right of me, so I push it up: that thought is mine.</think>\n<answer>Up</answer>"


@pytest.fixture
def spoken(run: Run) -> Run:
    """A run with four attempts, whose responses tests replace."""
    journal_builder.write(run.folder, journal_builder.started(), *journal_builder.iteration(1))
    JournalTailer(run).drain()
    return Run.objects.get(pk=run.pk)


def say(run: Run, text: str) -> None:
    for turn in Turn.objects.filter(trajectory__run=run):
        turn.event["response"] = text
        turn.save()


def found(run: Run, query: str) -> int:
    data = {name: values[0] for name, values in parse_qs(query).items()}
    filters, errors = Filters.parse(data)
    assert not errors
    return filter_trajectories(run, filters).count()


def test_each_scanner_of_texts_finds_its_fault_and_nothing_in_a_good_response(spoken: Run) -> None:
    patterns = {scanner.name: scanner.query for scanner in SCANNERS if "pattern" in scanner.filters}
    assert patterns.keys() == SAID.keys()
    say(spoken, CLEAN)
    assert {name: found(spoken, query) for name, query in patterns.items() if found(spoken, query)} == {}
    for name, text in SAID.items():
        say(spoken, text)
        assert found(spoken, patterns[name]) == spoken.trajectories.filter(turn_count__gt=0).count() > 0, name


def test_every_scanner_opens_the_explorer(spoken: Run, who: Visitors) -> None:
    for scanner in SCANNERS:
        response = who.viewer.get(f"/runs/{spoken.slug}/trajectories?{scanner.query}")
        assert response.status_code == 200
        assert 'aria-invalid="true"' not in response.content.decode(), scanner.name
    assert SCANNERS[0].sentence in who.viewer.get(f"/runs/{spoken.slug}/trajectories").content.decode()


@pytest.mark.parametrize("pattern", ["(", "a{2", "[", "a**", "\\", "(?P<x>a)", "*"])
def test_an_invalid_expression_is_explained_next_to_its_field(spoken: Run, who: Visitors, pattern: str) -> None:
    response = who.viewer.get(f"/runs/{spoken.slug}/trajectories", {"pattern": pattern, "outcome": "success"})
    assert response.status_code == 200
    assert "is no regular expression:" in response.content.decode()


def test_word_boundaries_are_those_of_other_dialects(spoken: Run) -> None:
    say(spoken, r"a pushed box \band")
    matches = [bool(found(spoken, f"pattern={text}")) for text in (r"\bpushed\b", r"\bpush\b", r"\\band", r"\\\bb")]
    assert matches == [True, False, True, True]
