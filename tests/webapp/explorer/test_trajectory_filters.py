"""Filters of the explorer over a played run: results of each, and errors for invalid values."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.http import QueryDict
from pytest_django import Settings

from tests.webapp.explorer.scripted_run import write_story
from webapp.explorer.trajectory_filters import Filters, filter_trajectories, windows
from webapp.runs.models import Alarm, Run
from webapp.trajectories.models import Trajectory, Turn


@pytest.fixture
def played_run(run: Run, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    return write_story(run)


def parse_filters(query: str) -> Filters:
    filters, errors = Filters.parse(QueryDict(query))
    assert not errors
    return filters


def everything(run: Run) -> list[Trajectory]:
    return list(Trajectory.objects.filter(run=run).select_related("group"))


def keys(run: Run, query: str) -> set[str]:
    return set(filter_trajectories(run, parse_filters(query)).values_list("key", flat=True))


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("", lambda t: True),
        ("iteration=2", lambda t: t.iteration == 2),
        ("iteration_min=2&iteration_max=3", lambda t: 2 <= t.iteration <= 3),
        ("split=train", lambda t: t.split == "train"),
        ("split=eval", lambda t: t.split == "eval"),
        ("environment=Sokoban", lambda t: t.group.environment == "Sokoban"),
        ("environment=Bandit&suite=other", lambda t: t.group.environment == "Bandit" and t.group.suite == "other"),
        ("group=1", lambda t: t.group.number == 1),
        ("outcome=success", lambda t: t.status == "success"),
        ("success=yes", lambda t: t.status == "success"),
        ("success=no", lambda t: t.status == "failed"),
        ("outcome=lost", lambda t: t.lost_at is not None),
        ("outcome=truncated", lambda t: t.end == "truncated"),
        ("outcome=waiting", lambda t: t.status == "waiting"),
        ("outcome=playing", lambda t: t.status == "playing"),
        ("outcome=error", lambda t: t.error),
        ("reward_min=0", lambda t: t.total_reward >= 0),
        ("reward_max=−0.5", lambda t: t.total_reward <= -0.5),
        ("turns_min=2&turns_max=4", lambda t: 2 <= t.turn_count <= 4),
        ("actions_max=2", lambda t: t.action_count <= 2),
        ("tokens_min=25", lambda t: t.token_count >= 25),
        ("format=broken", lambda t: t.format_error),
        ("format=valid", lambda t: not t.format_error),
        ("kept=yes", lambda t: t.group.kept is True),
        ("kept=no", lambda t: t.group.kept is False),
    ],
)
def test_each_filter_finds_its_trajectories(played_run: Run, query: str, wanted: object) -> None:
    assert callable(wanted)
    expected = {each.key for each in everything(played_run) if wanted(each)}
    assert keys(played_run, query) == expected
    assert expected, "the story should have some of these"
    assert not query or expected != {each.key for each in everything(played_run)}, "and some that are not"


def test_replaced_trajectories_are_never_found(played_run: Run) -> None:
    first = everything(played_run)[0]
    Trajectory.objects.filter(pk=first.pk).update(superseded=True)
    assert first.key not in keys(played_run, "")


def test_text_search_covers_thoughts_and_answers(played_run: Run) -> None:
    turn = Turn.objects.select_related("trajectory").filter(trajectory__run=played_run).order_by("?").first()
    assert turn is not None
    event = turn.event | {"thought": "Ångström(box_7) beats x=3 at row 2.", "answer": "Right || Down"}
    Turn.objects.filter(pk=turn.pk).update(event=event)
    for text in ("ångström", "box_7 beats", '"beats x=3"', "nothing or ångström", "ångström -solver", "ångström row"):
        assert keys(played_run, f"text={text}") == {turn.trajectory.key}, text
    assert keys(played_run, 'text="x=3 beats"') == set()
    assert keys(played_run, "text=ångström -box_7") == set()
    assert keys(played_run, "text=beat") == set(), "words are taken as they stand"
    assert turn.trajectory.key in keys(played_run, "text=down right")


def test_a_thought_of_any_length_can_be_stored(played_run: Run) -> None:
    turn = Turn.objects.filter(trajectory__run=played_run).first()
    assert turn is not None
    endless = " ".join(f"word{number}𝔁" for number in range(400_000))
    Turn.objects.filter(pk=turn.pk).update(event=turn.event | {"thought": endless})
    assert len(keys(played_run, "text=word12𝔁")) == 1


def test_alarm_iterations_end_at_the_healthy_one(played_run: Run) -> None:
    inside = {each.key for each in everything(played_run) if each.iteration in (2, 3, 5, 6)}
    assert keys(played_run, "alarm=yes") == inside
    assert keys(played_run, "alarm=no") == keys(played_run, "") - inside


def test_an_alarm_undone_by_a_rewind_does_not_count(played_run: Run) -> None:
    Alarm.objects.filter(iteration=5).update(undone=True)
    assert {each.split("-")[1] for each in keys(played_run, "alarm=yes")} == {"2", "3"}


def test_windows_of_alarms_open_with_watch_and_close_with_healthy() -> None:
    assert windows([]) == []
    assert windows([(3, "watch")]) == [(3, None)]
    assert windows([(3, "watch"), (5, "trapped"), (9, "healthy"), (12, "trapped")]) == [(3, 9), (12, None)]
    assert windows([(4, "healthy")]) == []
    assert windows([(4, "watch"), (4, "healthy")]) == []


@pytest.mark.parametrize(
    "query, field",
    [
        ("iteration=first", "iteration"),
        ("iteration=-1", "iteration"),
        ("iteration=99999999999", "iteration"),
        ("iteration_min=5&iteration_max=4", "iteration_max"),
        ("reward_min=nan", "reward_min"),
        ("reward_min=2&reward_max=1", "reward_max"),
        ("split=validation", "split"),
        ("outcome=great", "outcome"),
        ("format=json", "format"),
        ("kept=perhaps", "kept"),
        ("text=--", "text"),
        ("text=" + "a" * 300, "text"),
        ("text=a%00b", "text"),
        ("sort=colour", "sort"),
        ("environment=" + "a" * 101, "environment"),
    ],
)
def test_invalid_values_are_reported_by_field_and_the_rest_applies(query: str, field: str) -> None:
    filters, errors = Filters.parse(QueryDict(query + "&tokens_min=7"))
    assert set(errors) == {field}
    assert errors[field].endswith(".")
    assert filters.tokens_min == 7
    assert field == "sort" or getattr(filters, field) is None


def test_a_query_round_trips() -> None:
    query = "iteration_min=2&outcome=lost&reward_max=-0.25&kept=yes&text=%22a+b%22+-c&sort=-reward"
    filters = parse_filters(query)
    assert parse_filters(filters.query()) == filters
    assert parse_filters(filters.query(sort=None)).sort == "-iteration"
    assert Filters().query() == ""
