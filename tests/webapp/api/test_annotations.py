"""Annotations over the API: stars, tags and comments, for members of the run's team."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.conftest import People
from tests.webapp.page_requests import play
from webapp.annotations.models import Comment, Mention, Tag
from webapp.runs.models import Run
from webapp.teams.models import User
from webapp.trajectories.models import Trajectory


@pytest.fixture
def path(run: Run) -> str:
    return f"/api/trajectories/{Trajectory.objects.filter(run=play(run, 1))[0].slug}"


def test_stars_and_tags_are_set_and_removed_any_number_of_times(callers: Callers, path: str) -> None:
    for _ in range(2):
        starred = callers.owner.call("PUT", f"{path}/star")
        tagged = callers.owner.call("PUT", f"{path}/tags/Reward%20%20Hack")
        assert (starred.status_code, tagged.status_code) == (200, 200), tagged.content
    seen = callers.viewer.get(f"{path}/annotations").json()
    assert (seen["stars"], seen["starred"], seen["tags"]) == (["ada"], False, ["reward hack"])
    assert callers.owner.get(f"{path}/annotations").json()["starred"]
    for _ in range(2):
        assert callers.owner.call("DELETE", f"{path}/star").json()["stars"] == []
        assert callers.owner.call("DELETE", f"{path}/tags/reward%20hack").json()["tags"] == []
    assert not Tag.objects.exists()


def test_a_comment_mentions_members_and_is_changed_by_its_author_only(
    callers: Callers, people: People, path: str
) -> None:
    made = callers.viewer.post(f"{path}/comments", {"text": "Why not left, @ada?", "turn": 0})
    assert made.status_code == 201, made.content
    comment = made.json()
    assert (comment["turn"], comment["mentions"], comment["author"]) == (0, ["ada"], people.viewer.username)
    assert Mention.objects.get().user == people.owner
    changed = callers.viewer.call("PATCH", f"/api/comments/{comment['slug']}", {"text": "Never mind."})
    assert (changed.json()["text"], changed.json()["mentions"]) == ("Never mind.", [])
    assert changed.json()["edited_at"]
    assert [one["text"] for one in callers.owner.get(f"{path}/annotations").json()["comments"]] == ["Never mind."]
    own = callers.owner.post(f"{path}/comments", {"text": "Mine."}).json()
    refused = callers.viewer.call("DELETE", f"/api/comments/{own['slug']}")
    assert refused.status_code == 403
    assert "Only its author or an admin" in problem(refused)["message"]
    assert callers.owner.call("DELETE", f"/api/comments/{comment['slug']}").status_code == 204, "as an admin"


@pytest.mark.parametrize("visibility", Run.Visibility.values)
def test_an_outsider_does_not_learn_which_comments_exist(callers: Callers, path: str, visibility: str) -> None:
    slug = callers.owner.post(f"{path}/comments", {"text": "Ours."}).json()["slug"]
    Run.objects.update(visibility=visibility)
    browser = Client()
    browser.force_login(User.objects.get(username="mallory"))
    for method, page in (("PATCH", "edit"), ("DELETE", "delete")):
        answers = []
        for name in (slug, "NoSuchComment"):
            refused = callers.outsider.call(method, f"/api/comments/{name}", {"text": "Mine."})
            seen = browser.post(f"/comments/{name}/{page}", {"text": "Mine."})
            texts = (refused.content.decode() + seen.content.decode()).replace(name, "")
            answers.append((refused.status_code, seen.status_code, re.sub(r"\w{64}", "", texts)))  # tokens of forms
        assert answers[0] == answers[1]
        assert answers[0][:2] == (404, 404)
    assert Comment.objects.get().text == "Ours."


def test_invalid_annotations_are_explained(callers: Callers, path: str) -> None:
    late = callers.owner.post(f"{path}/comments", {"text": "x", "turn": 999})
    assert (late.status_code, problem(late)["message"]) == (422, "This attempt has no turn 1000.")
    empty = callers.owner.call("PUT", f"{path}/tags/%23")
    assert (empty.status_code, problem(empty)["message"]) == (422, "A tag needs at least one letter or digit.")
    assert callers.owner.post(f"{path}/comments", {"text": " "}).status_code == 422
