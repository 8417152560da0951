"""Filters of the explorer over a played run: results of each, and errors for invalid values."""

from __future__ import annotations

import pytest
from django.db import connection
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from envs.claims.kinds import CLAIM_KINDS
from tests.webapp.explorer.scripted_run import mark_some, write_story
from webapp.explorer.filter_values import HIDEABLE, MARKS, OUTCOMES
from webapp.explorer.trajectory_filters import Filters, _conditions, filter_trajectories, windows
from webapp.runs.models import Alarm, Run
from webapp.trajectories.end_reasons import END_REASONS
from webapp.trajectories.models import Trajectory, Turn


@pytest.fixture(scope="module")
def story(module_run: Run) -> None:
    mark_some(write_story(module_run))


@pytest.fixture
def played_run(story: None, run: Run) -> Run:
    return run


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
        ("group_number=2", lambda t: t.group.number == 1),
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
        ("claims=false", lambda t: t.false_claims),
        ("claims=true", lambda t: t.true_claims and not t.false_claims),
        ("claims=none", lambda t: t.true_claims == 0 and t.false_claims == 0),
        ("false_claim_kinds=direction", lambda t: "direction" in t.false_claim_kinds),
        ("false_claim_kinds=other,direction", lambda t: {"other", "direction"} & set(t.false_claim_kinds)),
        (
            "false_claim_kinds=other&false_claim_kinds=box_position",
            lambda t: len(t.false_claim_kinds) > 0 and set(t.false_claim_kinds) != {"direction"},
        ),
        ("mark=none", lambda t: t.worst_mark == 0),
        ("mark=blunder", lambda t: t.worst_mark == 3),
        ("mark=unjudged", lambda t: t.finished_seq and t.worst_mark in (None, -1)),
        ("mistake_turn=2", lambda t: t.first_mistake_turn == 1),
        ("reason=box_corner", lambda t: t.lost_at is not None),
        ("reason=solved", lambda t: t.status == "success"),
        ("reason=interrupted", lambda t: t.status == "interrupted"),
        ("break_turn=1", lambda t: t.lost_at is not None and t.lost_at["turn"] == 0),
        ("truth_min=60", lambda t: t.true_claims and t.true_claims / (t.true_claims + t.false_claims) >= 0.6),
        (
            "truth_min=50&truth_max=60%",
            lambda t: t.true_claims and 0.5 <= t.true_claims / (t.true_claims + t.false_claims) <= 0.6,
        ),
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


def test_claims_of_a_trajectory_are_those_of_its_turns(played_run: Run) -> None:
    for trajectory in everything(played_run):
        claims = [claim["true"] for turn in trajectory.turns.all() for claim in turn.event["claims"]]
        expected = (sum(claims), len(claims) - sum(claims)) if trajectory.turn_count else (None, None)
        assert (trajectory.true_claims, trajectory.false_claims) == expected


def test_kinds_of_false_claims_are_those_of_its_turns_in_order(played_run: Run) -> None:
    found = set()
    for trajectory in everything(played_run):
        claims = [claim for turn in trajectory.turns.all() for claim in turn.event["claims"]]
        wanted = {claim.get("kind", "other") for claim in claims if not claim["true"]}
        assert trajectory.false_claim_kinds == sorted(wanted)
        found.add(len(wanted))
    assert found >= {0, 1, 2}, "the story should have several kinds in one trajectory"


def test_a_kind_of_false_claims_is_found_by_its_index(played_run: Run) -> None:
    conditions = _conditions(parse_filters("false_claim_kinds=direction"))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan TO off")
        plan = Trajectory.objects.filter(*conditions).explain()
    assert "trajectory_false_kinds" in plan


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
        ("mark=great", "mark"),
        ("false_claim_kinds=weather", "false_claim_kinds"),
        ("false_claim_kinds=,", "false_claim_kinds"),
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


VALUES = {
    "iteration_min": st.integers(0, 99),
    "outcome": st.sampled_from(sorted(OUTCOMES)),
    "reason": st.sampled_from(sorted(END_REASONS)),
    "break_turn": st.integers(1, 50),
    "reward_min": st.floats(-50, 50, allow_nan=False),
    "truth_min": st.floats(0, 50),
    "truth_max": st.floats(51, 100),
    "claims": st.sampled_from(["false", "true", "none"]),
    "false_claim_kinds": st.lists(st.sampled_from(sorted(CLAIM_KINDS)), min_size=1).map(",".join),
    "group_number": st.integers(1, 99),
    "mark": st.sampled_from(sorted(MARKS)),
    "split": st.sampled_from(["train", "eval"]),
    "text": st.sampled_from(["corner", '"left of" -wall', "3,4", "näher & \U0001f600 a"]),
    "hide": st.lists(st.sampled_from(HIDEABLE), unique=True).map(" ".join),
    "sort": st.sampled_from(["reward", "-reward", "place", "-iteration"]),
    "view": st.sampled_from(["12", "-12", "broken-format"]),
}


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_a_query_string_is_read_back_as_the_same_filters(values: dict[str, object]) -> None:
    filters, errors = Filters.parse({name: str(value) for name, value in values.items()})
    assert errors == {}
    assert Filters.parse(QueryDict(filters.query())) == (filters, {})


@given(st.dictionaries(st.sampled_from([*VALUES, "at", "nonsense"]), st.text(max_size=30)))
def test_any_query_string_is_read_with_errors_at_its_fields(values: dict[str, str]) -> None:
    filters, errors = Filters.parse(values)
    assert errors.keys() <= VALUES.keys()
    assert Filters.parse(QueryDict(filters.query())) == (filters, {})


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("break_turn=0", "break_turn"),
        ("truth_min=101", "truth_min"),
        ("truth_max=-1", "truth_max"),
        ("reason=bad", "reason"),
        ("mistake_turn=0", "mistake_turn"),
        ("group_number=0", "group_number"),
    ],
)
def test_impossible_values_are_explained_at_their_field(query: str, field: str) -> None:
    assert list(Filters.parse(QueryDict(query))[1]) == [field]
