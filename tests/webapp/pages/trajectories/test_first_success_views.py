"""The page of the first successes of an evaluation, and its note on the live page."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from pytest_django import Settings

from tests.webapp.evaluation_journal import evaluations
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.fragments import compact
from tests.webapp.journal_builder import started
from tests.webapp.page_requests import Visitors, who
from webapp.runs.models import Run

__all__ = ["who"]


@pytest.fixture
def learner(run: Run, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    signs = {0: "--", 1: "--", 2: "+-", 3: "++", 4: "++"}
    return write_story(run, [started(), *evaluations(signs, [4, 6])])


def test_the_page_shows_the_failures_and_ends_with_the_success(learner: Run, who: Visitors) -> None:
    page = compact(who.viewer.get(f"/runs/{learner.slug}/first-successes?iteration=2").content.decode())
    assert "First success on puzzle 1, after iteration 2 (4 moves, 2 failed attempts before)." in page
    slugs = re.findall(r'href="/t/([^"]+)" data-frame', page)
    assert [learner.trajectories.get(slug=slug).key for slug in slugs] == ["e0-0", "e1-0", "e2-0"]
    picture = re.search(r'href="([^"]+)">Picture', page)
    assert picture is not None
    assert who.viewer.get(picture[1])["Content-Type"] == "image/png"


def test_the_link_of_a_public_run_has_a_preview_with_the_sentence(learner: Run, who: Visitors) -> None:
    address = f"/runs/{learner.slug}/first-successes?iteration=3"
    assert "og:image" not in who.viewer.get(address).content.decode()
    Run.objects.filter(pk=learner.pk).update(visibility=Run.Visibility.LINK)
    page = who.anonymous.get(address).content.decode()
    assert 'property="og:description" content="First success on puzzle 2, after iteration 3' in page
    picture = re.search(r'property="og:image" content="http://testserver([^"]+)"', page)
    assert picture is not None
    image = who.anonymous.get(picture[1].replace("&amp;", "&"))
    assert Image.open(BytesIO(image.content)).size == (1200, 630)


def test_the_live_page_gets_a_note_while_the_newest_evaluation_has_any(learner: Run, who: Visitors) -> None:
    """The newest evaluation solves no puzzle that an earlier one did not."""
    fragment = {"X-Fragment": "1"}
    address = f"/runs/{learner.slug}/first-successes"
    assert who.viewer.get(address, headers=fragment).status_code == 204
    assert "No first success in this evaluation" in who.viewer.get(address).content.decode()
    assert "It got it!" not in who.viewer.get(f"/runs/{learner.slug}/").content.decode()
    learner.evaluations.filter(iteration=4).delete()
    assert "It got it!" in who.viewer.get(f"/runs/{learner.slug}/").content.decode()
    note = who.viewer.get(address, headers=fragment).content.decode()
    assert "It got it!" in note
    assert f'href="{address}?iteration=3"' in note


@pytest.mark.parametrize("iteration", ["9", "x", ""])
def test_an_unknown_evaluation_is_missing(learner: Run, who: Visitors, iteration: str) -> None:
    assert who.viewer.get(f"/runs/{learner.slug}/first-successes?iteration={iteration}").status_code == 404
