"""List of runs: visibility, filters and order, refresh of changing rows, link to the comparison."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp import recorded_journal
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, play, who
from trainer.config.run import RunConfig
from trainer.journal.writer import Journal
from webapp.ingest.tailer import JournalTailer
from webapp.runs import summaries
from webapp.runs.models import Evaluation, MetricPoint, Run

__all__ = ["who"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path


def make(people: People, title: str, **fields: Any) -> Run:
    config = RunConfig.model_validate(fields.pop("config", {})).model_dump(mode="json")
    given = {"environment": config["environment"]["name"], "author": people.owner, "tags": config["tags"]} | fields
    return Run.objects.create(team=people.team, title=title, config=config, iterations=4, **given)


def add_evaluation(run: Run, iteration: int, success: float, suite: str = "") -> Evaluation:
    return Evaluation.objects.create(
        run=run,
        iteration=iteration,
        suite=suite or run.environment,
        prompts=256,
        success=success,
        success_low=success - 0.05,
        success_high=success + 0.05,
        mean_reward=1,
        mean_turns=1,
        mean_actions=1,
        time=timezone.now(),
    )


def titles(client: Client, query: str = "") -> list[str]:
    page = client.get(f"/?{query}").content.decode()
    return re.findall(r'<a id="run-[^"]+" href="[^"]+">([^<]+)</a>', page)


@pytest.mark.parametrize("count", [1, 12])
def test_the_query_count_of_the_runs_page_is_constant(
    count: int, people: People, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(count):
        made = make(people, f"Run {number}", config={"tags": [f"tag{number}"]})
        MetricPoint.objects.create(run=made, name="success/rate", iteration=1, value=0.5, tokens=1, seconds=1)
        add_evaluation(made, 1, 0.5)
    with django_assert_max_num_queries(14):  # five of them for the queue
        who.owner.get("/")
    with django_assert_max_num_queries(10):
        who.owner.get("/", headers={"HX-Request": "true"})


def test_the_list_shows_only_runs_of_the_team(run: Run, who: Visitors) -> None:
    assert titles(who.owner) == titles(who.viewer) == ["Trial"]
    assert titles(who.outsider) == []
    assert who.anonymous.get("/")["Location"] == "/login?next=/"


def test_a_private_run_appears_only_for_its_author(people: People, run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    assert titles(who.owner) == ["Trial"]
    assert titles(who.viewer) == []


def test_an_empty_list_explains_how_to_start(who: Visitors) -> None:
    assert "Launch the first run" in who.owner.get("/").content.decode()
    assert "Launch the first run" not in who.viewer.get("/").content.decode()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("text=tri", True),
        ("text=ada", True),
        ("text=nothing", False),
        ("state=queued", True),
        ("state=failed", False),
        ("state=active", True),
        ("environment=Sokoban", True),
        ("environment=Bandit", False),
        ("page=99", True),
        ("page=x", True),
        ("author=ada", True),
        ("author=grace", False),
        ("algorithm=starpo", True),
        ("algorithm=starpo_s", False),
        ("algorithm=gae", True),
        ("algorithm=grpo", False),
        ("algorithm=sft", False),
        ("algorithm=nonsense", True),
        ("mine=1", True),
        ("tag=none", False),
        ("sort=nonsense", True),
    ],
)
def test_the_list_is_filtered(query: str, found: bool, run: Run, who: Visitors) -> None:
    assert titles(who.owner, query) == (["Trial"] if found else [])


def test_mine_selects_runs_of_the_reader(run: Run, who: Visitors) -> None:
    assert titles(who.viewer, "mine=1") == []


def test_a_run_of_several_environments_is_listed_under_each_of_them(people: People, who: Visitors) -> None:
    mix = [{"name": "FrozenLake", "share": 0.25}]
    make(people, "Mixed", config={"environment": {"name": "Sokoban", "mix": mix}})
    make(people, "Plain")
    assert titles(who.owner, "environment=FrozenLake") == ["Mixed"]
    assert sorted(titles(who.owner, "environment=Sokoban")) == ["Mixed", "Plain"]
    page = who.owner.get("/").content.decode()
    assert "Sokoban + FrozenLake" in page
    assert contains(page, "<option>FrozenLake</option>")


def test_tags_and_authors_of_the_team_are_offered(people: People, who: Visitors) -> None:
    make(people, "One", config={"tags": ["baseline"]})
    make(people, "Two", author=people.viewer)
    page = who.owner.get("/").content.decode()
    assert contains(page, "<option>baseline</option>")
    assert contains(page, "<option>grace</option>")
    assert titles(who.owner, "tag=baseline") == ["One"]
    assert titles(who.owner, "author=grace") == ["Two"]
    assert "baseline" not in who.outsider.get("/").content.decode()


def test_the_order_can_be_selected(people: People, who: Visitors) -> None:
    low, high, none = make(people, "Low"), make(people, "High"), make(people, "None")
    add_evaluation(low, 1, 0.9)
    add_evaluation(low, 2, 0.3)
    add_evaluation(high, 2, 0.6)
    MetricPoint.objects.create(run=low, name="reward/mean", iteration=1, value=5, tokens=1, seconds=1)
    assert titles(who.owner) == ["None", "High", "Low"]
    assert titles(who.owner, "sort=oldest") == ["Low", "High", "None"]
    assert titles(who.owner, "sort=success") == ["High", "Low", "None"], "by the newest result, those without one last"
    assert titles(who.owner, "sort=reward")[0] == "Low"
    assert titles(who.owner, "sort=title") == ["High", "Low", "None"]
    Run.objects.filter(pk=none.pk).update(iteration=3)
    assert titles(who.owner, "sort=progress")[0] == "None"


def test_a_row_shows_the_latest_result_with_its_interval(people: People, who: Visitors) -> None:
    run = make(people, "One")
    add_evaluation(run, 1, 0.2)
    add_evaluation(run, 5, 0.5)
    add_evaluation(run, 5, 0.9, suite="FrozenLake")
    page = who.owner.get("/").content.decode()
    assert contains(page, "<b>50.0 %</b>")
    assert contains(page, "45.0 % to 55.0 %")


def test_long_curves_are_averaged_and_end_with_the_latest_value(people: People) -> None:
    run = make(people, "Long")
    Run.objects.filter(pk=run.pk).update(iterations=600)
    MetricPoint.objects.bulk_create(
        MetricPoint(run=run, name="success/rate", iteration=number, value=number / 600, tokens=1, seconds=1)
        for number in range(1, 601)
    )
    (card,) = summaries.cards([Run.objects.get(pk=run.pk)])
    assert 55 <= len(card.success) <= 61
    assert card.success == sorted(card.success)
    assert card.success_last == 1.0


def test_selected_runs_are_compared_without_javascript(people: People, who: Visitors) -> None:
    one, two = make(people, "One"), make(people, "Two")
    answer = who.owner.get(f"/?compare={one.slug}&compare={two.slug}&compare=nothing&compare_now=1")
    assert answer["Location"] == f"/compare?runs={one.slug},{two.slug}"


def test_a_refresh_gets_the_rows_only(run: Run, who: Visitors) -> None:
    page = who.owner.get("/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in page
    assert 'id="runs"' in page
    assert "every 3s" in page


def test_an_idle_list_polls_slowly(run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    assert "every 20s" in who.owner.get("/").content.decode()


@pytest.mark.parametrize("query", ["", "?sort=reward&environment=Sokoban"])
def test_an_open_list_equals_a_reloaded_one(
    query: str, run: Run, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows updated while the journal of a run grows equal a reloaded page at every step."""
    monkeypatch.setattr(summaries, "age", lambda moment: "a while")
    config = RunConfig.model_validate(run.config)
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    events = [
        recorded_journal.started(config),
        recorded_journal.evaluated(0, 0.35),
        *recorded_journal.iteration(config, 1, 0.5),
        recorded_journal.evaluated(1, 0.4),
        *recorded_journal.iteration(config, 2, 0.7),
        *recorded_journal.iteration(config, 3, 0.7),
    ]
    log = Journal(run.folder)
    shown = loaded(who.viewer, query)
    swaps = 0
    for at in range(0, len(events), max(1, len(events) // 12)):
        log.write(*events[at : at + max(1, len(events) // 12)])
        run.refresh_from_db()
        JournalTailer(run).drain()
        for _ in range(2):  # the second time there is no news
            seen = re.search(r'"X-Seen": "(\w+)"', shown)
            assert seen is not None
            answer = who.viewer.get(f"/{query}", headers={"HX-Request": "true", "X-Seen": seen[1]})
            swaps += answer.status_code == 200
            shown = answer.content.decode().strip() if answer.status_code == 200 else shown
        assert answer.status_code == 204
        assert shown == loaded(who.viewer, query)
    assert swaps > 3


def loaded(client: Client, query: str) -> str:
    page = client.get(f"/{query}").content.decode()
    return page[page.index('<div id="runs"') : page.index('<div class="compare-bar"')].strip()


def test_a_played_run_shows_its_results(run: Run, who: Visitors) -> None:
    play(run, finished=3)
    page = who.owner.get("/").content.decode()
    assert contains(page, 'class="success" points="')
    assert "3 of 4 iterations" in page
    assert "CPU, 2 threads" in page
