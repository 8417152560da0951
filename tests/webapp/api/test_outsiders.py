"""What readers outside a team learn over the API of a run that is open by link: nothing of the team's own."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.webapp.annotations.conftest import played, trajectory
from tests.webapp.api.api_clients import Callers
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.annotations.actions import do_star, do_tag
from webapp.runs.models import Run
from webapp.teams.models import Team
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db
__all__ = ["played", "trajectory", "who"]


@pytest.fixture
def public(trajectory: Trajectory, people: People) -> Run:
    """A run open by link with one starred and tagged trajectory."""
    do_star(trajectory, people.owner)
    do_tag(trajectory, people.owner, "odd")
    Run.objects.update(visibility=Run.Visibility.LINK)
    Team.objects.filter(pk=people.team.pk).update(name="Secret project")
    return Run.objects.get()


def found(client: Client, run: Run, query: str = "") -> int:
    return len(client.get(f"/api/runs/{run.slug}/trajectories?{query}").json()["items"])


def test_filters_by_annotations_do_nothing_for_outsiders(public: Run, who: Visitors) -> None:
    everything = found(who.outsider, public)
    assert everything > 1
    for query in ("tag=odd", "tag=nonsense", "starred=true", "starred=false"):
        assert found(who.outsider, public, query) == everything, query
    assert found(who.viewer, public, "tag=odd") == found(who.viewer, public, "starred=true") == 1
    assert found(who.viewer, public, "tag=nonsense") == 0


def test_team_and_author_are_left_out_for_outsiders(public: Run, who: Visitors) -> None:
    answer = who.outsider.get(f"/api/runs/{public.slug}")
    assert (answer.json()["team"], answer.json()["author"]) == (None, None)
    for secret in ("Secret project", public.team.slug, '"ada"'):
        assert secret not in answer.content.decode()
    inside = who.viewer.get(f"/api/runs/{public.slug}").json()
    assert (inside["team"]["name"], inside["author"]) == ("Secret project", "ada")


def test_checkpoints_journal_and_log_are_for_the_team(public: Run, who: Visitors) -> None:
    for part in ("checkpoints", "journal", "log", "export/journal"):
        assert who.outsider.get(f"/api/runs/{public.slug}/{part}").status_code == 404, part
        assert who.viewer.get(f"/api/runs/{public.slug}/{part}").status_code == 200, part


def test_a_token_sees_its_team_only(public: Run, callers: Callers) -> None:
    assert callers.outsider.get(f"/api/runs/{public.slug}").status_code == 404
    slug = public.trajectories.all()[0].slug
    assert callers.outsider.post(f"/api/trajectories/{slug}/comments", {"text": "Theirs."}).status_code == 404
