"""Team TV: the most telling attempt, the runs and the queue of the user's teams."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.evaluation_journal import evaluations
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.journal_builder import iteration, started
from tests.webapp.page_requests import Visitors, who
from webapp.runs.models import Run

__all__ = ["who"]
FRAGMENT = {"X-Fragment": "1"}


@pytest.fixture
def learner(run: Run, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    before, after = evaluations({0: "--"}, [4, 6]), evaluations({1: "+-"}, [4, 6])
    return write_story(run, [started(), *before, *iteration(1, groups=2, size=4), *after])


def shown(page: str) -> str:
    found = re.search(r'data-tv-moment="([^"]*)"', page)
    assert found is not None
    return found[1]


def test_a_first_success_is_shown_first_and_then_another_moment(learner: Run, who: Visitors) -> None:
    page = html.unescape(who.viewer.get("/tv").content.decode())
    assert learner.trajectories.get(slug=shown(page)).key == "e1-0"
    assert "First success on this puzzle, after 1 failed attempt" in page
    assert f'src="/t/{shown(page)}/embed?autoplay=1"' in page
    assert who.viewer.get(f"/t/{shown(page)}/embed?autoplay=1").content.count(b"data-autoplay") == 1
    part = who.viewer.get(f"/tv?shown={shown(page)}", headers=FRAGMENT).content.decode()
    assert "<html" not in part
    assert shown(part) not in ("", shown(page))


def test_private_runs_and_runs_of_other_teams_stay_off_the_wall(learner: Run, who: Visitors, people: People) -> None:
    assert learner.title in who.owner.get(f"/tv?team={people.team.slug}").content.decode()
    assert learner.title not in who.outsider.get("/tv").content.decode()
    assert who.outsider.get(f"/tv?team={people.team.slug}").status_code == 404
    Run.objects.filter(pk=learner.pk).update(visibility=Run.Visibility.PRIVATE)
    page = who.owner.get("/tv").content.decode()
    assert learner.title not in page
    assert "Nothing has been played yet" in page


def test_a_run_that_has_ended_is_shown_while_nothing_runs_and_others_wait(
    learner: Run, who: Visitors, people: People
) -> None:
    Run.objects.filter(pk=learner.pk).update(state=Run.State.FINISHED, ended_at=learner.created_at)
    Run.objects.create(team=people.team, author=people.owner, title="The next one", config={}, environment="Sokoban")
    page = who.viewer.get("/tv").content.decode()
    assert shown(page)
    queue = page.partition("Queue</h2>")[2]
    assert "The next one" in queue
