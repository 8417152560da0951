"""The film of an initial state: strip on its page, picture and animation by URL."""

from __future__ import annotations

import html
import re
from io import BytesIO

import pytest
from PIL import Image
from pytest_django import DjangoAssertNumQueries

from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.fragments import compact
from tests.webapp.page_requests import Visitors, who
from webapp.explorer import filmstrip
from webapp.pages.trajectories import related_views
from webapp.runs.models import Run
from webapp.trajectories.models import Group, Trajectory
from webapp.trajectories.render.drawing_queue import DRAWINGS

__all__ = ["who"]


@pytest.fixture(scope="module")
def story(module_run: Run) -> None:
    write_story(module_run)
    for key, status in (("fixed-0-1-0", "failed"), ("fixed-2-1-0", "success"), ("fixed-4-1-0", "failed")):
        Trajectory.objects.filter(run=module_run, key=key).update(status=status)


@pytest.fixture
def trajectory(story: None, run: Run) -> Trajectory:
    """Of an initial state evaluated three times and solved at iteration 2."""
    return Trajectory.objects.get(run=run, key="fixed-4-1-0")


def page(who: Visitors, trajectory: Trajectory, query: str = "") -> str:
    response = who.viewer.get(f"/t/{trajectory.slug}/prompt{query}")
    assert response.status_code == 200
    return compact(html.unescape(response.content.decode()))


def test_readers_of_the_run_see_the_picture(trajectory: Trajectory, who: Visitors) -> None:
    address = f"/t/{trajectory.slug}/film.png"
    response = who.viewer.get(address)
    assert (response.status_code, response["Content-Type"]) == (200, "image/png")
    assert Image.open(BytesIO(response.content)).width == 1200
    assert response["Cache-Control"] == "private, max-age=300"


def test_the_page_of_a_public_run_has_a_preview(trajectory: Trajectory, who: Visitors) -> None:
    assert "og:image" not in page(who, trajectory)
    Run.objects.filter(pk=trajectory.run_id).update(visibility=Run.Visibility.LINK)
    found = re.search(r'property="og:image" content="http://testserver([^"]+)"', page(who, trajectory))
    assert found is not None
    response = who.anonymous.get(found[1])
    assert response["Content-Type"] == "image/png"
    assert Image.open(BytesIO(response.content)).size == (1200, 630)


@pytest.mark.parametrize("kind", ["webp", "gif"])
def test_the_animation_is_played_in_step(trajectory: Trajectory, who: Visitors, kind: str) -> None:
    response = who.viewer.get(f"/t/{trajectory.slug}/film.{kind}")
    assert (response.status_code, response["Content-Type"]) == (200, f"image/{kind}")
    assert response["Content-Disposition"].startswith("inline")


def test_unknown_formats_and_films_without_an_end_are_missing(trajectory: Trajectory, who: Visitors) -> None:
    response = who.viewer.get(f"/t/{trajectory.slug}/film.bmp")
    assert response.status_code == 404
    Trajectory.objects.update(status=Trajectory.Status.PLAYING)
    assert who.viewer.get(f"/t/{trajectory.slug}/film.png").status_code == 404


def test_an_unchanged_film_is_not_sent_again(trajectory: Trajectory, who: Visitors) -> None:
    address = f"/t/{trajectory.slug}/film.png"
    tag = who.viewer.get(address)["ETag"]
    assert who.viewer.get(address, headers={"if-none-match": tag}).status_code == 304
    first = Trajectory.objects.get(run=trajectory.run_id, key="fixed-0-1-0")
    assert who.viewer.get(f"/t/{first.slug}/film.png")["ETag"] == tag
    Trajectory.objects.filter(pk=first.pk).update(status="success")
    again = who.viewer.get(address, headers={"if-none-match": tag})
    assert again.status_code == 200
    assert again["ETag"] != tag


def test_a_busy_queue_refuses_for_some_seconds(
    trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DRAWINGS, "timeout", 0.0)
    with DRAWINGS._slot:
        response = who.viewer.get(f"/t/{trajectory.slug}/film.png")
    assert response.status_code == 503
    assert response["Retry-After"]


def test_the_page_shows_a_frame_for_each_evaluation(trajectory: Trajectory, who: Visitors) -> None:
    text = page(who, trajectory)
    assert "first solved at iteration 2" in text
    strip = re.search(r'<ol class="film-strip".*?</ol>', text)
    assert strip
    titles = [title.strip() for title in re.findall(r"<b>(.*?)</b>", strip[0], re.DOTALL)]
    assert titles == ["Before training", "Iteration 2", "Iteration 4"]
    assert strip[0].count("first success</span>") == 1
    for key in ("fixed-0-1-0", "fixed-2-1-0", "fixed-4-1-0"):
        slug = Trajectory.objects.get(run=trajectory.run_id, key=key).slug
        assert f'href="/t/{slug}"' in strip[0]
    assert 'id="film"' in text
    assert f'src="/t/{trajectory.slug}/film.png"' in text


def test_environments_without_cells_show_their_last_answers(trajectory: Trajectory, who: Visitors) -> None:
    board = {"kind": "arms", "arms": [{"name": "Phoenix", "pulls": 0, "total": 0.0, "last": None}]}
    Group.objects.filter(pk__in=Trajectory.objects.filter(key__contains="-1-0").values("group")).update(board=board)
    text = page(who, trajectory)
    assert text.count('class="film-answer"') == 3
    assert "data-scrub" not in text
    assert who.viewer.get(f"/t/{trajectory.slug}/film.png").status_code == 200


def test_one_iteration_has_no_film(trajectory: Trajectory, who: Visitors) -> None:
    once = Trajectory.objects.get(run=trajectory.run_id, key="train-3-2-2")
    assert "film-strip" not in page(who, once)


def test_further_iterations_are_a_link_away(
    trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = Trajectory.objects.get(run=trajectory.run_id, key="train-3-1-2")
    monkeypatch.setattr(related_views, "MAX_FRAMES", 3)
    text = page(who, current)
    assert text.count("data-frame") == 3
    assert f'href="/t/{current.slug}/prompt?all=1"' in text
    every = page(who, current, "?all=1")
    assert every.count("data-frame") > 3
    assert f'href="/t/{current.slug}/prompt?all=1"' not in every


def test_the_number_of_queries_does_not_grow_with_the_frames(
    trajectory: Trajectory, who: Visitors, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    few, many = (Trajectory.objects.get(run=trajectory.run_id, key=key) for key in ("fixed-4-1-0", "train-3-1-2"))
    for current in (few, many):
        with django_assert_num_queries(6):
            who.viewer.get(f"/t/{current.slug}/film.png")
    assert filmstrip.MAX_FRAMES == 12
