"""Comparison of runs: permissions, differing settings, results for the same prompt, query counts."""

from __future__ import annotations

import html
import json
import re

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, play, who
from trainer.config.run import RunConfig
from webapp.explorer.compare import MAX_RUNS
from webapp.explorer.run_groups import group_key
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run

__all__ = ["who"]


def another(people: People, run: Run, title: str = "Other", **changes: float) -> Run:
    config = json.loads(json.dumps(run.config))
    config["optimizer"] |= changes
    return Run.objects.create(
        team=people.team, author=people.owner, title=title, config=config, environment="Sokoban", iterations=4
    )


def add_evaluations(*runs: Run) -> None:
    for run in runs:
        journal_builder.write(run.folder, *journal_builder.whole_run(2))
        JournalTailer(run).drain()


def test_the_page_shows_differing_settings_with_their_help(people: People, run: Run, who: Visitors) -> None:
    other = another(people, run, policy_lr=0.0005)
    page = who.viewer.get(f"/compare?runs={run.slug},{other.slug}").content.decode()
    assert "Compare 2 runs" in page
    assert "Policy learning rate" in page
    assert "0.0005" in page
    assert page.count('class="group"') == 1, "groups in which nothing differs are left out"


def test_runs_of_an_earlier_version_are_compared_by_what_their_settings_mean(
    people: People, run: Run, who: Visitors
) -> None:
    other = another(people, run)
    other.config["algorithm"] |= {"value_clip": 0.5, "kl_placement": "loss", "kl_estimator": "k3"}
    other.save(update_fields=["config"])
    page = html.unescape(who.viewer.get(f"/compare?runs={run.slug},{other.slug}").content.decode())
    assert "KL placement and estimator" in page
    assert "loss_k3" in page
    assert "value_clip" not in page
    assert group_key(run) != group_key(other)
    del other.config["algorithm"]["kl_placement"], other.config["algorithm"]["kl_estimator"]
    assert group_key(run) == group_key(other)


def test_further_environments_that_differ_are_shown_one_per_line(people: People, run: Run, who: Visitors) -> None:
    other = another(people, run)
    mix = [{"name": "FrozenLake", "share": 0.25, "settings": {"size": 5}}, {"name": "Bandit", "share": 0.25}]
    other.config = RunConfig.model_validate(other.config | {"environment": {"mix": mix}}).model_dump(mode="json")
    other.save(update_fields=["config"])
    page = html.unescape(who.viewer.get(f"/compare?runs={run.slug},{other.slug}").content.decode())
    assert "Further environments" in page
    assert "- {name: FrozenLake, share: 0.25, settings: {size: 5}}\n- {name: Bandit, share: 0.25}" in page


def test_identical_settings_are_stated(people: People, run: Run, who: Visitors) -> None:
    other = another(people, run)
    other.config["name"] = "Named otherwise"
    other.save(update_fields=["config"])
    page = who.viewer.get(f"/compare?runs={run.slug}&runs={other.slug}").content.decode()
    assert "the runs have the same settings" in page


def test_comparisons_respect_run_permissions(people: People, run: Run, who: Visitors) -> None:
    other = another(people, run)
    address = f"/compare?runs={run.slug},{other.slug}"
    stranger = who.outsider.get(address)
    assert stranger.status_code == 200
    assert "Trial" not in stranger.content.decode()
    assert stranger.content.decode().count("or belongs to a team you are not in") == 2
    anonymous = who.anonymous.get(address)
    assert anonymous.status_code == 302
    assert anonymous["Location"].startswith("/login")
    Run.objects.update(visibility=Run.Visibility.LINK)
    assert "Trial" in who.anonymous.get(address).content.decode(), "what everybody may see needs no account"
    data = who.outsider.get(f"/compare/curves.json?runs={run.slug}&names=reward/mean").json()
    assert data["runs"].keys() == {run.slug}


def test_a_wrong_id_is_reported_and_the_others_are_compared(run: Run, who: Visitors) -> None:
    page = who.owner.get(f"/compare?runs=nonsense,{run.slug},{run.slug}").content.decode()
    assert "Run &#x27;nonsense&#x27; does not exist" in page
    assert "Compare 1 run" in page


def test_too_many_runs_are_truncated_with_a_notice(people: People, run: Run, who: Visitors) -> None:
    runs = [run, *(another(people, run, f"Run {number}") for number in range(MAX_RUNS))]
    page = who.owner.get("/compare?runs=" + ",".join(one.slug for one in runs)).content.decode()
    assert f"At most {MAX_RUNS} runs can be compared" in page
    assert f"Compare {MAX_RUNS} runs" in page


def test_without_runs_the_page_suggests_some(run: Run, who: Visitors) -> None:
    page = who.viewer.get("/compare").content.decode()
    assert contains(page, f'name="runs" value="{run.slug}"')
    assert f'value="{run.slug}"' not in who.outsider.get("/compare").content.decode()
    assert who.anonymous.get("/compare").status_code == 302


def test_the_same_prompt_is_shown_as_each_run_played_it(people: People, run: Run, who: Visitors) -> None:
    other, third = another(people, run), another(people, run, "Never examined")
    add_evaluations(run, other)
    page = who.viewer.get(f"/compare?runs={run.slug},{other.slug},{third.slug}&suite=fixed&puzzle=2").content.decode()
    embedded = re.search(r'<script id="plays" type="application/json">(.*?)</script>', page, re.S)
    assert embedded is not None
    plays = json.loads(embedded[1])
    assert [play["id"] for play in plays] == ["e2-1", "e2-1"], "the newest evaluation of each"
    assert all(play["turns"][0]["thought"] == "I push." for play in plays)
    assert page.count('data-play="') == 2
    assert "This run has not played this puzzle" in page
    assert "Puzzle, 1 to 2" in page
    beyond = who.viewer.get(f"/compare?runs={run.slug}&suite=fixed&prompt=999").content.decode()
    assert 'value="2"' in beyond, "beyond the last prompt is the last one"


def test_a_prompt_with_another_start_is_not_the_same(people: People, run: Run, who: Visitors) -> None:
    other = another(people, run)
    add_evaluations(run, other)
    other.groups.filter(split="eval", number=0).update(seed=8)
    page = who.viewer.get(f"/compare?runs={run.slug},{other.slug}&suite=fixed&prompt=0").content.decode()
    assert page.count('data-play="') == 1
    assert "or not from this state" in page


def test_data_of_all_runs_comes_in_one_response(people: People, run: Run, who: Visitors) -> None:
    other = another(people, run)
    play(run, finished=2)
    play(other, finished=1)
    data = who.viewer.get(f"/compare/curves.json?runs={run.slug},{other.slug}&names=reward/mean").json()
    assert {slug: len(curves["reward/mean"]["value"]) for slug, curves in data["runs"].items()} == {
        run.slug: 2,
        other.slug: 1,
    }


@pytest.mark.parametrize("count", [2, MAX_RUNS])
def test_the_query_count_is_constant_in_the_number_of_runs(
    count: int, people: People, run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    runs = [run, *(another(people, run, f"Run {number}") for number in range(count - 1))]
    add_evaluations(*runs)
    with django_assert_max_num_queries(16):
        response = who.viewer.get("/compare?suite=fixed&runs=" + ",".join(one.slug for one in runs))
    assert response.content.decode().count('data-play="') == count
