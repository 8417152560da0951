"""Rewards that another trainer did not record are no zeros in the explorer; recorded ones count without a success."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

import echoscope
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.explorer.counts import ResultCounts, facts
from webapp.explorer.facets import survey
from webapp.explorer.found import find_place
from webapp.explorer.highlights import of_iteration
from webapp.explorer.related import same_prompt
from webapp.explorer.trajectory_filters import Filters, filter_trajectories
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.pagination import BadCursor, page

__all__ = ["who"]

Attempt = tuple[bool | None, float | None]
"""Its success and its reward."""
PAIR: list[Attempt] = [(None, 0.7), (True, None)]
MIXED: list[Attempt] = [(True, 2.0), (False, -1.0), (None, 0.5), (True, None), (False, None), (None, None)]


def record(folder: Path, people: People, attempts: Iterable[Attempt]) -> Run:
    """A run of another trainer, one group whose members have these successes and rewards."""
    run = echoscope.init("Elsewhere", folder=folder, environment="W")
    members = list(attempts)
    for attempt, (success, reward) in zip(run.group(len(members), prompt="Go.", iteration=1), members, strict=True):
        attempt.turn(state="s", response="r", reward=reward)
        attempt.finish(success=success)
    run.finish()
    call_command("import_journal", str(folder), "--team", people.team.slug)
    return Run.objects.get(title="Elsewhere")


def parsed(query: str) -> Filters:
    return Filters.parse(QueryDict(query))[0]


def explorer(who: Visitors, run: Run, query: str = "") -> str:
    return html.unescape(who.owner.get(f"/runs/{run.slug}/trajectories?{query}").content.decode())


def summary(page: str) -> str:
    found = re.search(r'<p class="number"[^>]*role="status">(.*?)</p>', page)
    return found[1] if found else ""


@pytest.mark.parametrize(
    "attempts, words",
    [
        (PAIR, "2 found · 100.0% solved · mean reward +0.7"),
        ([(True, None), (False, None)], "2 found · 50.0% solved"),
        ([(None, 0.25), (None, 0.75)], "2 found · mean reward +0.5"),
        ([(None, None)], "1 found"),
        (MIXED, "6 found · 50.0% solved · mean reward +0.5"),
    ],
)
def test_the_summary_is_of_what_was_recorded(
    attempts: list[Attempt], words: str, people: People, tmp_path: Path, who: Visitors
) -> None:
    run = record(tmp_path / "run", people, attempts)
    assert summary(explorer(who, run)) == words


def test_all_counts_are_the_same(people: People, tmp_path: Path) -> None:
    run = record(tmp_path / "run", people, MIXED)
    wanted = ResultCounts(found=6, ended=4, success=2, reward=1.5, rewarded=3)
    assert facts(run, Filters()) == wanted
    assert survey(run, Filters()).totals == wanted


def test_a_range_of_rewards_leaves_out_unknown_ones(people: People, tmp_path: Path) -> None:
    run = record(tmp_path / "run", people, MIXED)
    for query, found in (("reward_min=0", 2), ("reward_max=1", 2), ("reward_min=-5&reward_max=5", 3)):
        filters = parsed(query)
        with CaptureQueriesContext(connection) as queries:
            surveyed = survey(run, filters)
        assert len(queries) == 2, "as without a range"
        totals = surveyed.totals
        assert totals is not None
        assert filter_trajectories(run, filters).filter(rewarded=False).count() == 0
        assert (totals.found, totals.rewarded) == (found, found)
        assert facts(run, filters) == totals
        choices = [choice for facet in surveyed.facets for choice in facet.choices]
        assert sum({choice.label: choice.number for choice in choices if choice.number}.values()) == found


def test_the_distribution_has_no_bar_of_unknown_rewards(people: People, tmp_path: Path) -> None:
    run = record(tmp_path / "run", people, [(None, 3.0), (True, 4.0), (True, None), (None, None)])
    rewards = survey(run, Filters()).rewards
    assert rewards is not None
    assert rewards.start == 3.0
    assert [bar.label.rpartition(": ")[2] for bar in rewards.bars] == ["1", "1"]


@pytest.mark.parametrize("attempts", [PAIR, [(True, None), (False, None)]])
def test_without_two_rewards_there_is_no_distribution(attempts: list[Attempt], people: People, tmp_path: Path) -> None:
    run = record(tmp_path / "run", people, attempts)
    assert survey(run, Filters()).rewards is None


def test_a_group_of_the_same_prompt_has_the_mean_of_its_recorded_rewards(people: People, tmp_path: Path) -> None:
    run = record(tmp_path / "run", people, PAIR)
    [iteration] = same_prompt(Trajectory.objects.filter(run=run)[0])
    assert iteration.mean == pytest.approx(0.7)
    assert (iteration.solved, iteration.ended) == (1, 1)


def test_no_highlight_is_chosen_for_a_reward_that_was_not_recorded(people: People, tmp_path: Path) -> None:
    run = record(tmp_path / "run", people, [(False, 5.0), (False, 5.0), (False, None)])
    run.groups.update(mean=5.0, std=0.0, kept=True)
    captions = [highlight.caption for highlight in of_iteration(run, 1)]
    assert [caption for caption in captions if "reward 0" in caption] == []


SORTED: list[Attempt] = [
    (True, -1.0),
    (None, None),
    (False, 2.0),
    (None, 0.0),
    (True, None),
    (False, -1.0),
    (False, None),
]


def order(run: Run, sort: str, size: int) -> tuple[list[str], list[str]]:
    """Names of the attempts on all pages: by the links to the next page, and back by those to the previous one."""
    rows = filter_trajectories(run, Filters())
    there: list[str] = []
    shown = page(rows, sort, None, size)
    there += [item.key for item in shown.items]
    while shown.next:
        shown = page(rows, sort, shown.next, size)
        there += [item.key for item in shown.items]
    back = [item.key for item in shown.items]
    while shown.previous:
        shown = page(rows, sort, shown.previous, size)
        back = [*(item.key for item in shown.items), *back]
    return there, back


def test_unknown_rewards_stand_last_in_both_directions(people: People, tmp_path: Path) -> None:
    run = record(tmp_path / "run", people, SORTED)
    names = list(run.trajectories.order_by("pk").values_list("key", flat=True))
    for sort, wanted in (("reward", [0, 5, 3, 2, 1, 4, 6]), ("-reward", [2, 3, 0, 5, 1, 4, 6])):
        for size in (1, 2, 3, 4, 5, 7, 50):
            there, back = order(run, sort, size)
            assert there == [names[number] for number in wanted], (sort, size)
            assert back == there
        rows = list(page(filter_trajectories(run, Filters()), sort).items)
        places = [find_place(row, Filters(sort=sort)) for row in rows]
        assert [place and place.number for place in places] == [1, 2, 3, 4, 5, 6, 7], "the player walks in this order"
        slugs = [row.slug for row in rows]
        assert [place.next[3:].partition("?")[0] for place in places if place and place.next] == slugs[1:]
        assert [place.previous[3:].partition("?")[0] for place in places if place and place.previous] == slugs[:-1]


def test_only_sorts_with_unknown_values_have_places_without_one(people: People, tmp_path: Path) -> None:
    run = record(tmp_path / "run", people, SORTED)
    rows = filter_trajectories(run, Filters())
    last = page(rows, "reward", None, 6).next
    assert last is not None
    text = base64.urlsafe_b64decode(last + "=" * (-len(last) % 4)).decode().replace("reward", "turns")
    with pytest.raises(BadCursor):
        page(rows, "turns", base64.urlsafe_b64encode(text.encode()).decode())
