"""Explorer page: permissions, listing, sorting, htmx partials, invalid queries."""

from __future__ import annotations

import html
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp.conftest import People
from tests.webapp.explorer.scripted_run import mark_some, write_story
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from webapp.annotations.models import Star, Tag, Tagging
from webapp.core import formatting
from webapp.explorer.counts import facts
from webapp.explorer.facets import survey
from webapp.explorer.trajectory_filters import Filters
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory, Turn

__all__ = ["who"]


@pytest.fixture(scope="module")
def story(module_run: Run) -> None:
    mark_some(write_story(module_run))


@pytest.fixture
def played(story: None, run: Run) -> Run:
    return run


def get(client: Client, run: Run, query: str = "", **headers: str) -> str:
    response = client.get(f"/runs/{run.slug}/trajectories{'?' if query else ''}{query}", headers=headers)
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def listed(page: str) -> list[str]:
    return re.findall(r'data-row href="/t/(\w+)\?[^"]*"', page)


def walk(client: Client, run: Run, query: str) -> list[str]:
    """The slugs on all pages, by following Next."""
    slugs: list[str] = []
    while True:
        page = get(client, run, query)
        slugs += listed(page)
        link = re.search(r'rel="next" href="\?([^"]*)"', page)
        if link is None:
            return slugs
        query = link[1]


def test_outsiders_do_not_see_stars_and_tags_of_the_team(played: Run, who: Visitors, people: People) -> None:
    Run.objects.update(visibility=Run.Visibility.LINK)
    first = Trajectory.objects.first()
    Star.objects.create(trajectory=first, user=people.owner)
    Tagging.objects.create(trajectory=first, tag=Tag.objects.create(team=people.team, name="odd"))
    for query in ("starred=yes", "tag=Odd"):
        assert len(listed(get(who.viewer, played, query))) == 1
        assert len(listed(get(who.outsider, played, query))) == 50
        assert "odd" not in get(who.outsider, played)
    assert "odd" in get(who.viewer, played)


@pytest.mark.parametrize(
    "sort",
    ["iteration", "-place", "outcome", "-reward", "turns", "-actions", "tokens", "-format", "kept", "-environment"],
)
def test_the_pages_contain_every_trajectory_once_in_order(sort: str, played: Run, who: Visitors) -> None:
    everything = {item.slug: item for item in Trajectory.objects.select_related("group")}
    values = {
        "iteration": lambda item: item.iteration,
        "place": lambda item: (item.group.number, item.member),
        "outcome": lambda item: (
            ["success", "failed", "interrupted", "playing", "waiting"].index(item.status),
            item.status == "failed" and item.lost_at is not None,
        ),
        "reward": lambda item: item.total_reward,
        "turns": lambda item: item.turn_count,
        "actions": lambda item: item.action_count,
        "tokens": lambda item: item.token_count,
        "format": lambda item: item.format_error,
        "kept": lambda item: {True: 0, False: 1, None: 2}[item.group.kept],
        "environment": lambda item: item.group.environment,
    }
    value = values[sort.removeprefix("-")]
    shown = walk(who.viewer, played, f"sort={sort}")
    if sort.startswith("-"):
        assert sorted(shown) == sorted(everything)
        assert [value(everything[slug]) for slug in shown] == sorted(map(value, everything.values()), reverse=True)
    else:
        assert shown == sorted(everything, key=lambda slug: (value(everything[slug]), everything[slug].pk))


def test_the_previous_link_returns_to_the_same_page(played: Run, who: Visitors) -> None:
    first = get(who.viewer, played, "sort=-reward")
    assert 'rel="prev"' not in first
    onward = re.search(r'rel="next" href="\?([^"]*)"', first)
    assert onward is not None
    second = get(who.viewer, played, onward[1])
    assert listed(second)
    assert not set(listed(first)) & set(listed(second))
    back = re.search(r'rel="prev" href="\?([^"]*)"', second)
    assert back is not None
    again = get(who.viewer, played, back[1])
    assert listed(again) == listed(first)
    assert 'rel="prev"' not in again


@pytest.mark.parametrize("cursor", ["x", "W10", "bnVsbA", "é", "A" * 5000, "WyItcmV3YXJkIiwxLDEsMV0"])
def test_an_invalid_cursor_shows_the_first_page_with_a_notice(cursor: str, played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, f"at={cursor}")
    assert "showing the first page" in page
    assert listed(page) == listed(get(who.viewer, played))


def test_the_facts_summarise_the_results(played: Run, who: Visitors) -> None:
    found = list(Trajectory.objects.filter(iteration=2))
    counted = [item for item in found if item.status in ("success", "failed")]
    assert len(counted) < len(found), "interrupted attempts are neither solved nor failed"
    solved = sum(item.status == "success" for item in counted) / len(counted)
    mean = sum(item.total_reward for item in counted) / len(counted)
    page = get(who.viewer, played, "iteration=2")
    assert f"{len(found)} found · {formatting.percent(solved)} solved · mean reward {formatting.signed(mean)}" in page


def test_invalid_values_are_reported_and_kept_in_their_field(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "iteration_min=two&iteration_max=3&text=--")
    assert "“two” is not a whole number, such as 12." in page
    assert re.search(r'id="iteration_min"[^>]*value="two"[^>]*aria-invalid="true"', page)
    assert "Write at least one word" in page
    early = Trajectory.objects.filter(iteration__lte=3)
    assert set(listed(page)) == set(early.values_list("slug", flat=True))
    assert f"{early.count()} found" in page


def test_every_filter_has_a_chip_that_removes_it(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "iteration=2&outcome=success&reward_min=-1")
    assert contains(page, 'href="?outcome=success&reward_min=-1" aria-label="Remove filter: iteration 2"')
    assert contains(page, 'href="?iteration=2&reward_min=-1" aria-label="Remove filter: solved"')
    assert contains(page, 'href="?iteration=2&outcome=success" aria-label="Remove filter: reward ≥ −1"')


def test_groups_and_attempts_are_counted_from_1(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "group_number=1")
    assert 'aria-label="Remove filter: group 1"' in page
    assert re.search(r"\s1 · 1\s", page)
    assert "g0 ·" not in page


def test_matches_are_highlighted_and_text_is_escaped(played: Run, who: Visitors) -> None:
    turn = Turn.objects.select_related("trajectory").filter(number=1).order_by("pk").first()
    assert turn is not None
    event = turn.event | {"thought": "I fear <script>alert(1)</script> & <b>zugzwang</b> here."}
    Turn.objects.filter(pk=turn.pk).update(event=event)
    response = who.viewer.get(f"/runs/{played.slug}/trajectories?text=zugzwang").content.decode()
    assert contains(response, "<mark>zugzwang</mark>")
    assert "Turn 2: " in response
    assert not contains(response, "<script>alert")
    assert not contains(response, "<b>zug")
    assert listed(response) == [turn.trajectory.slug]


def test_htmx_gets_the_partial_and_the_short_url(played: Run, who: Visitors) -> None:
    query = "iteration_min=2&iteration_max=&outcome=&text=&split=&tokens_min=x&sort=-reward"
    response = who.viewer.get(f"/runs/{played.slug}/trajectories?{query}", headers={"HX-Request": "true"})
    page = html.unescape(response.content.decode())
    assert "<html" not in page
    assert listed(page) == listed(get(who.viewer, played, query))
    assert response["HX-Push-Url"] == f"/runs/{played.slug}/trajectories?iteration_min=2&sort=-reward"
    assert "HX-Request" in response["Vary"]
    assert contains(page, '<span class="field-error" id="tokens_min-error" hx-swap-oob="true">“x” is not')
    whole = get(who.viewer, played, query)
    for name in re.findall(r'id="(\w+-error)" hx-swap-oob', page):
        assert f'id="{name}"' in whole, "the part replaces only what the page has"


def facet(page: str, name: str) -> list[tuple[str, str, int]]:
    """The choices of a facet: query, label and number."""
    part = re.search(rf'aria-labelledby="facet-{name}">(.*?)</ul>', page, re.S)
    found = re.findall(
        r'<a href="\?([^"]*)".*?facet-label">(.*?)</span>\s*<span class="number">([\d,]+)<',
        part[1] if part else "",
        re.S,
    )
    return [(query, label, int(number.replace(",", ""))) for query, label, number in found]


@pytest.mark.parametrize(
    "query",
    ["", "split=train&reason=box_corner", "text=corner&iteration=2", "mark=blunder&reward_max=0"],
)
def test_each_choice_of_a_facet_finds_as_many_as_it_counts(query: str, played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, query)
    seen = 0
    for name in ("reason", "break_turn", "mark", "claims", "false_claim_kinds", "split", "environment"):
        for link, label, number in facet(page, name):
            if f"{name}=" in query:
                continue  # its chosen one leads back
            assert f"{number:,} found" in get(who.viewer, played, link), (name, label)
            seen += 1
    assert seen > 1


def test_a_chosen_facet_is_marked_and_can_be_left(played: Run, who: Visitors) -> None:
    chosen = get(who.viewer, played, "claims=false")
    assert "a false claim" in chosen
    assert re.search(r'<a href="\?"\s+aria-current="true">\s*<span class="facet-label">At least one false', chosen)
    Trajectory.objects.filter(run=played).update(true_claims=None, false_claims=None)
    assert facet(get(who.viewer, played), "claims") == []


def test_several_kinds_of_false_claims_can_be_chosen(played: Run, who: Visitors) -> None:
    one = get(who.viewer, played, "false_claim_kinds=direction&split=train")
    links = {label: (link, number) for link, label, number in facet(one, "false_claim_kinds")}
    assert links.keys() == {"Box position", "Direction or distance", "Other"}
    link, number = links["Box position"]
    assert "false_claim_kinds=box_position+direction" in link
    both = get(who.viewer, played, link)
    wanted = played.trajectories.filter(split="train", false_claim_kinds__overlap=["box_position", "direction"]).count()
    assert f"{wanted:,} found" in both
    alone = played.trajectories.filter(split="train", false_claim_kinds__contains=["box_position"]).count()
    assert number == alone < wanted, "a choice counts its own kind"
    assert both.count('aria-current="true"') >= 3
    for kind, other in (("box position", "direction"), ("direction or distance", "box_position")):
        chip = re.search(rf'href="\?([^"]*)" aria-label="Remove filter: false: {kind}"', both)
        assert chip is not None
        assert f"false_claim_kinds={other}" in chip[1]
    assert '<input type="hidden" name="false_claim_kinds" value="box_position direction"' in both
    repeated = get(who.viewer, played, "false_claim_kinds=direction&false_claim_kinds=box_position&split=train&mark=")
    assert listed(repeated) == listed(both), "fields of a form may be repeated"


def test_the_totals_are_those_of_all_filters(played: Run) -> None:
    for query in (
        "",
        "mark=blunder",
        "reason=box_corner&reward_max=0",
        "false_claim_kinds=other&split=train",
        "text=row",
    ):
        filters = Filters.parse(QueryDict(query))[0]
        totals = survey(played, filters).totals
        counted = facts(played, filters)
        assert totals is not None
        assert (totals.found, totals.ended, totals.success) == (counted.found, counted.ended, counted.success)
        assert totals.reward == pytest.approx(counted.reward)
        assert counted.found


def test_facets_are_counted_by_one_statement_that_reads_each_trajectory_once(played: Run) -> None:
    filters = Filters.parse(QueryDict("mark=blunder&false_claim_kinds=other"))[0]
    with CaptureQueriesContext(connection) as queries:
        assert survey(played, filters).facets
    assert len(queries) == 2, "the range of rewards, and the combinations"
    assert queries[1]["sql"].count('FROM "trajectories_trajectory"') == 1


def test_the_worst_mark_is_listed_and_sorted_by(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "mark=blunder")
    assert re.search(r'class="of-mark">\s*<b class="sign bad" aria-hidden="true">\?\?</b>blunder', page)
    assert "worst mark: ?? blunder" in page
    marks = dict(played.trajectories.values_list("slug", "worst_mark"))
    order = [-2 if marks[slug] is None else marks[slug] for slug in walk(who.viewer, played, "sort=-mark")]
    assert order == sorted(order, reverse=True)
    assert len(set(order)) == 6
    assert "not judged yet" in get(who.viewer, played, "mark=unjudged")


def test_marks_are_no_facet_before_anything_has_been_judged(played: Run, who: Visitors) -> None:
    assert [label for _, label, _ in facet(get(who.viewer, played), "mark")] == [
        "No mistakes",
        "?! inaccuracy",
        "? mistake",
        "?? blunder",
        "Not judged",
    ]
    played.trajectories.update(worst_mark=None)
    assert facet(get(who.viewer, played), "mark") == []


def test_groups_are_counted_from_1_in_the_form_and_the_chips(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "group_number=2")
    assert 'name="group_number" inputmode="numeric"' in page
    assert re.search(r'id="group_number"[^>]*value="2"', page)
    assert "Remove filter: group 2" in page
    assert set(re.findall(r"found=group_number%3D2", page))
    assert "from 0" not in page
    wrong = get(who.viewer, played, "group_number=x")
    assert re.search(r'id="group_number-error"[^>]*>“x” is not a whole number', wrong)


def test_a_search_for_a_way_to_fail_offers_the_attempts_that_ended_so(played: Run, who: Visitors) -> None:
    Turn.objects.update(event={"thought": "Left.", "answer": "Left", "response": "Left", "actions": []})
    page = get(who.viewer, played, "text=corners")
    assert "No attempt matches" in page
    offered = re.search(
        r'ended like this:.*?href="\?(reason=box_corner)">Box in a corner\s*<span[^>]*>(\d+)<', page, re.S
    )
    assert offered is not None
    assert f"{offered[2]} found" in get(who.viewer, played, offered[1])


def test_phrases_are_marked_as_a_whole(played: Run, who: Visitors) -> None:
    turn = Turn.objects.filter(number=0).order_by("pk").first()
    assert turn is not None
    thought = "The box is there. Right now box 3,4 is right of 3, so I push the box."
    Turn.objects.filter(pk=turn.pk).update(event=turn.event | {"thought": thought})
    page = get(who.viewer, played, "text=" + quote('"box 3,4"'))
    assert re.findall(r"<mark>(.*?)</mark>", page) == ["box 3,4"]
    assert "Right now <mark>box 3,4</mark> is right of 3" in page, "no space is added"
    row = re.search(r'data-row href="(/t/[^"]*)"', page)
    assert row is not None
    assert "?turn=1&found=" in row[1], "the player opens at the turn of the hit"
    assert 'data-found="[[&quot;box&quot;, &quot;3&quot;, &quot;4&quot;]]"' in (
        who.viewer.get(unescape(row[1])).content.decode()
    )


def test_hidden_columns_stay_hidden_on_the_next_page(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "hide=tokens+kept+nonsense")
    assert 'data-hidden="tokens kept"' in page
    onward = re.search(r'rel="next" href="\?([^"]*)"', page)
    assert onward is not None
    assert 'data-hidden="tokens kept"' in get(who.viewer, played, onward[1])


def test_rows_show_the_board_at_the_break_and_lead_there(
    run: Run, tmp_path: Path, settings: Settings, who: Visitors
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    page = get(who.viewer, write_story(run), "reason=box_corner")
    assert page.count('<svg class="mini grid sokoban"') == len(listed(page)) > 0
    assert len(re.findall(r'data-row href="/t/\w+\?turn=1&action=1&found=reason%3Dbox_corner"', page)) == len(
        listed(page)
    )


def test_a_history_restore_gets_the_full_page(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "", **{"HX-Request": "true", "HX-History-Restore-Request": "true"})
    assert "<html" in page


def test_an_empty_run_explains_the_page(run: Run, who: Visitors) -> None:
    assert "No attempts yet" in get(who.viewer, run)
    assert "No attempt matches" in get(who.viewer, run, "iteration=4")


@pytest.mark.parametrize("query", ["", "sort=-reward", "text=box+-nothing", "environment=Sokoban&kept=yes&alarm=no"])
def test_the_query_count_of_the_explorer_is_constant(
    query: str, played: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    Run.objects.filter(pk=played.pk).update(state=Run.State.FINISHED)
    with django_assert_max_num_queries(18):
        get(who.viewer, played, query)
    with django_assert_max_num_queries(17):
        get(who.viewer, played, query, **{"HX-Request": "true"})
