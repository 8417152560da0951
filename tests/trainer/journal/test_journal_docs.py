"""docs/journal.md describes every event and field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from envs.base import Claim, Hint
from trainer.journal.events import (
    ActionRecord,
    AnyEvent,
    EvaluatedPolicy,
    Event,
    GeneralizationCell,
    GroupScore,
    LostAt,
    UpdateProgress,
)
from trainer.journal.reader import parse_line

PAGE = (Path(__file__).parents[3] / "docs" / "journal.md").read_text(encoding="utf-8")
EVENTS: dict[str, type[BaseModel]] = {
    str(model.model_fields["type"].default): model for model in get_args(get_args(AnyEvent)[0])
}
PARTS: dict[str, type[BaseModel]] = {
    "Actions": ActionRecord,
    "Progress of an update": UpdateProgress,
    "Hints": Hint,
    "Claims": Claim,
    "Group scores": GroupScore,
    "Evaluated policies": EvaluatedPolicy,
    "Cells of the matrix": GeneralizationCell,
    "The place where it was lost": LostAt,
}


def section(title: str) -> str:
    """The text under a heading, up to the next one of any level."""
    found = re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/journal.md has no section {title!r}"
    return found.group(1)


def described(title: str) -> set[str]:
    """Names in the first column of a section's table."""
    first_columns = re.findall(r"^\| (`[^|]*) \|", section(title), re.MULTILINE)
    return {name for column in first_columns for name in re.findall(r"`([^`]+)`", column)}


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_and_all_its_fields_are_described_and_no_other(name: str) -> None:
    fields = set(EVENTS[name].model_fields) - set(Event.model_fields) - {"type"}
    assert described(f"`{name}`") == fields


@pytest.mark.parametrize("title", PARTS)
def test_every_part_of_an_event_and_all_its_fields_are_described(title: str) -> None:
    assert described(title) == set(PARTS[title].model_fields)


def test_no_event_is_described_that_does_not_exist() -> None:
    assert set(re.findall(r"^## `(\w+)`$", PAGE, re.MULTILINE)) == set(EVENTS)


def test_optional_fields_are_called_optional() -> None:
    for name, model in EVENTS.items():
        rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section(f"`{name}`"), re.MULTILINE))
        for field, kind in rows.items():
            default = model.model_fields[field].default
            assert ("optional" in kind) == (default is None), f"{name}.{field}"


def test_the_example_is_a_journal() -> None:
    example = re.search(r"```jsonl\n(.*?)```", PAGE, re.DOTALL)
    assert example
    events = [parse_line(line, number) for number, line in enumerate(example.group(1).splitlines(), start=1)]
    assert [event.type for event in events] == [
        "run_started",
        "phase",
        "group_started",
        "turn",
        "trajectory_finished",
        "run_finished",
    ]
