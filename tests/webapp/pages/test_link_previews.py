"""Previews of links to runs, trajectories and studies: for pages that anyone may read, and only for these."""

from __future__ import annotations

import html
import re

from django.test import Client

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, play, who
from webapp.runs.models import Run
from webapp.studies.actions import do_create_study
from webapp.studies.models import Study
from webapp.studies.study_plan import planned
from webapp.studies.study_spec import CatalogueSpec
from webapp.trajectories.models import Trajectory

__all__ = ["who"]


def metadata(client: Client, address: str) -> dict[str, str]:
    """Open Graph and Twitter properties of a page."""
    response = client.get(address)
    assert response.status_code == 200
    tags = re.findall(r'<meta (?:property|name)="((?:og|twitter):[^"]+)" content="([^"]*)">', response.content.decode())
    return {name: html.unescape(content) for name, content in tags}


def test_a_run_that_anyone_may_read_has_a_preview_with_a_board(run: Run, who: Visitors) -> None:
    play(run, 1)
    address = f"/runs/{run.slug}/"
    assert metadata(who.owner, address) == {}, "visible to the team only"
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    meta = metadata(who.anonymous, address)
    assert meta["og:title"] == run.title
    assert meta["og:url"] == f"http://testserver{address}"
    assert f"iteration 1 of {run.iterations}" in meta["og:description"]
    assert meta["twitter:card"] == "summary_large_image"
    picture = who.anonymous.get(meta["og:image"])
    assert (picture.status_code, picture["Content-Type"]) == (200, "image/png")


def test_a_run_without_trajectories_has_a_preview_without_an_image(run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    meta = metadata(who.anonymous, f"/runs/{run.slug}/")
    assert meta["twitter:card"] == "summary"
    assert "og:image" not in meta


def test_a_trajectory_of_such_a_run_shows_the_position_of_the_link(run: Run, who: Visitors) -> None:
    play(run, 1)
    trajectory = Trajectory.objects.filter(run=run, turn_count__gt=1)[0]
    address = f"/t/{trajectory.slug}?turn=2&action=1"
    assert metadata(who.viewer, address) == {}
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    meta = metadata(who.anonymous, address)
    assert meta["og:title"] == "A language model plays Sokoban (iteration 1)"
    assert re.fullmatch(r"(Solved|Lost|Out|Failed) .*\.", meta["og:description"])
    assert meta["og:url"] == f"http://testserver{address}"
    assert meta["og:image"].startswith(f"http://testserver/t/{trajectory.slug}/picture.png?turn=2&action=1&v=")
    assert who.anonymous.get(meta["og:image"]).status_code == 200


def test_a_study_that_anyone_may_read_has_a_preview(people: People, who: Visitors) -> None:
    spec = CatalogueSpec(study="figure-9", scale="smoke", seeds=1)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    address = f"/studies/{study.slug}"
    assert metadata(who.owner, address) == {}
    Study.objects.filter(pk=study.pk).update(visibility=Study.Visibility.LINK)
    meta = metadata(who.anonymous, address)
    assert (meta["og:title"], meta["og:url"]) == (study.title, f"http://testserver{address}")
    assert meta["twitter:card"] == "summary"
    assert meta["og:description"].endswith("Running.")
