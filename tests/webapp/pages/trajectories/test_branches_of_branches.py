"""Branches of branches: asked like recorded attempts, named after their lineage, refused where nothing repeats them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from tests.webapp import played_branches as made
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, assert_private, who
from tests.webapp.pages.trajectories.test_branch_views import attempt, played_run, post, shown
from webapp.branching.actions import do_ask, do_delete_question
from webapp.branching.asked import Asked, Kind, refusal
from webapp.branching.models import BranchQuestion
from webapp.runs.actions import RequestRefused
from webapp.runs.models import Checkpoint, Run
from webapp.teams.models import AuditEntry, Team
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

__all__ = ["attempt", "played_run", "who"]


def place_of(attempt: Trajectory) -> str:
    return f"g{attempt.group.number + 1} · {attempt.member + 1:02d}"


def test_a_question_about_a_branch_begins_with_what_played_it(
    attempt: Trajectory, people: People, who: Visitors
) -> None:
    question = made.branches(attempt, people.owner, [True, False], turn=0, turns=3, temperature=0.5, used_checkpoint=2)
    branch = made.branch_of(question, 1)
    address = f"/t/{branch.slug}"
    for path in (address, f"{address}/branches"):
        assert_private(path, who)
    assert_private(f"{address}/branches/ask", who, post=True)
    page = shown(who.owner, address, turn="2")
    assert "those that played it (the checkpoint of iteration 2)" in page
    assert 'placeholder="0.5"' in page
    assert f'id="ask-turn" min="1" max="{branch.turn_count}" value="2"' in page
    assert "<dt><kbd>b</kbd></dt>" in page
    form = {"kind": "branch", "turn": "2", "samples": "2"}
    assert post(who.viewer, branch, form).status_code == 403
    response = post(who.owner, branch, form)
    asked = BranchQuestion.objects.get(trajectory=branch)
    assert response.headers["Location"] == f"{address}?turn=2#question-{asked.slug}"
    assert (asked.turn, asked.checkpoint, asked.weights_run, asked.temperature) == (1, 2, None, 0.5)
    assert do_ask(branch, Asked(turn=1, samples=2), people.owner) == asked
    for kind in (Kind.VALUE, Kind.THOUGHTS):
        about_all = do_ask(branch, Asked(kind=kind, samples=2), people.owner)
        assert (about_all.trajectory, about_all.total) == (branch, 2 * branch.turn_count)
    assert "the checkpoint of iteration 2 · temperature 0.5 · ada," in shown(who.viewer, address)


def test_a_position_that_the_branch_shares_is_asked_where_it_is(
    attempt: Trajectory, people: People, who: Visitors
) -> None:
    changed = {"thought": "Push it up."}
    question = made.branches(attempt, people.owner, [True, False], turn=1, turns=2, change=changed)
    first = made.branch_of(question)
    below = made.branches(first, people.owner, [True], turn=2, checkpoint=1)
    deep = made.branch_of(below)
    form = {"kind": "branch", "turn": "2", "samples": "2", "change": "thought", "text": "Push it up."}
    here = f"/t/{attempt.slug}?turn=2#question-"
    assert post(who.owner, first, form).headers["Location"] == f"{here}{question.slug}", "the same question"
    assert BranchQuestion.objects.count() == 2
    response = post(who.owner, deep, form | {"text": "Left!"}, htmx=True)
    asked = BranchQuestion.objects.latest("pk")
    assert (asked.trajectory, asked.turn, asked.checkpoint) == (attempt, 1, 1), "with the weights of the branch"
    assert (response.headers["HX-Redirect"], response.content) == (f"{here}{asked.slug}", b"")
    assert "Before turn 2 the branch is this attempt" in shown(who.owner, f"/t/{attempt.slug}")
    assert do_ask(deep, Asked(turn=2, samples=1), people.owner) == below


def test_weights_of_another_run_are_taken_over_by_those_who_may_use_them(
    attempt: Trajectory, people: People, who: Visitors
) -> None:
    other = Run.objects.create(team=people.team, author=people.owner, title="Another", config=attempt.run.config)
    Checkpoint.objects.create(run=other, iteration=7, path="", bytes=0, time=timezone.now())
    question = made.branches(attempt, people.owner, [True], turn=0, turns=3, weights_run=other, used_checkpoint=7)
    branch = made.branch_of(question)
    assert "those that played it (the checkpoint of iteration 7 of another run)" in shown(
        who.owner, f"/t/{branch.slug}"
    )
    asked = do_ask(branch, Asked(turn=1, samples=1), people.owner)
    assert (asked.weights_run, asked.checkpoint) == (other, 7)
    own = do_ask(branch, Asked(turn=1, samples=1), people.owner, attempt.run)
    assert (own.weights_run, own.checkpoint) == (None, 1), "the weights that played the recorded attempt"
    Run.objects.filter(pk=other.pk).update(team=Team.objects.get(name="Elsewhere"))
    response = post(who.owner, branch, {"kind": "branch", "turn": "3", "samples": "1"})
    assert response.status_code == 409
    assert "a run of none of your teams" in response.content.decode()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"luck": "fresh"}, "its luck is new from turn 1 on. Play on from {} without new luck"),
        ({"change": {"state": "Nothing."}}, "the message that it read at turn 1 was changed, while"),
    ],
)
def test_a_branch_that_nothing_repeats_is_refused_with_all_below(
    attempt: Trajectory, people: People, who: Visitors, values: dict[str, Any], reason: str
) -> None:
    branch = made.branch_of(made.branches(attempt, people.owner, [True], turn=0, turns=3, **values))
    below = made.branch_of(made.branches(branch, people.owner, [True], turn=2))
    reason = reason.format(place_of(attempt))
    for one in (branch, below):
        page = shown(who.owner, f"/t/{one.slug}")
        assert f"This branch cannot be played again: {reason}" in page
        assert 'id="play-on"' not in page
        with pytest.raises(RequestRefused, match="cannot be played again"):
            do_ask(one, Asked(kind=Kind.VALUE, samples=1), people.owner)
    assert do_ask(branch, Asked(turn=0, samples=3), people.owner).trajectory == attempt, "before that it is the attempt"


def test_unfinished_questions_and_long_lineages_are_refused(attempt: Trajectory, people: People) -> None:
    running = made.ask(attempt, people.owner, turn=0, samples=2)
    made.begin(running)
    made.play_on(running, [True])
    assert refusal(made.branch_of(running)) == (
        "A policy can play on from a branch when all branches of its question have ended."
    )
    played, names = attempt, place_of(attempt)
    for turn in range(5):
        assert refusal(played) == ""
        played = made.branch_of(made.branches(played, people.owner, [True], turn=turn, turns=6 - turn))
        names = f"branch 1 of {names}" if turn < 4 else names
    assert refusal(played) == f"This is the 5th branch in a row: play on from {names}, which it continues."
    Trajectory.objects.filter(pk=attempt.pk).update(superseded=True)
    assert "a later attempt of the run replaced this one" in refusal(made.branch_of(running))


def test_pages_of_a_branch_of_a_branch(
    attempt: Trajectory, people: People, who: Visitors, django_assert_max_num_queries: Any
) -> None:
    change = {"thought": "Push it up."}
    question = made.branches(attempt, people.owner, [True, False], turn=0, turns=3, change=change)
    parent = made.branch_of(question, 1)
    below = made.branches(parent, people.owner, [True, False], turn=2, checkpoint=2, used_checkpoint=2)
    branch, sibling = made.branch_of(below), made.branch_of(below, 1)
    place, address = f"branch 2 of {place_of(attempt)}", f"/t/{branch.slug}"
    page = shown(who.owner, address)
    assert f"<title>branch 1 of {place}, iteration 2" in page
    assert "<h1> Branch 1 of 2 </h1>" in page
    assert f'<a href="/t/{parent.slug}?turn=3#branches">turn 3</a> of {place} with the checkpoint of' in page
    assert "Turns 1 to 2 are from that branch." in page
    assert 'At turn 1 <mark class="changed">the thought was changed</mark>.' in page
    crumbs = page.split('<p class="crumbs">')[1].split("</p>")[0]
    group = page.split("data-group href=")[1].split(">")[0]
    assert (crumbs.count("played on from turn"), crumbs.count("data-group")) == (2, 1)
    assert group == f'"/t/{parent.slug}?turn=3#question-{below.slug}"'
    assert crumbs.index(f"/t/{attempt.slug}") < crumbs.index(f"/t/{parent.slug}") < crumbs.index(address)
    assert f'data-next href="/t/{sibling.slug}?turn=3"' in page
    assert f"Compare with {place}, turn by turn" in page
    assert who.owner.get(f"{address}/prompt").headers["Location"] == f"/t/{attempt.slug}/prompt"
    assert f"branch 1 of {place}" in shown(who.owner, f"/t/{attempt.slug}/diff/{branch.slug}")
    for path in ("tokens", "input/3", "embed", "annotations", "picture.png"):
        assert who.owner.get(f"{address}/{path}", headers={"HX-Request": "true"}).status_code == 200, path

    document = json.loads(who.owner.get(f"{address}/export/json").content)
    above = {"turn": 0, "checkpoint": 1, "change": change}
    assert document["branch"] == {"turn": 2, "checkpoint": 2, "change": {}, "branch": above}
    assert document["group"] == attempt.group.number
    words = (
        "played on from turn 3, with the checkpoint of iteration 2; before that from turn 1, with the checkpoint of "
        "iteration 1; the thought was changed"
    )
    assert who.owner.get(f"{address}/export/txt").content.decode().startswith(f"Sokoban, {words}\n")
    link = do_share_trajectory(branch, people.owner)
    shared = shown(who.anonymous, f"/s/{link.token}")
    assert f"<h1>Sokoban · {words}</h1>" in shared
    assert parent.slug not in shared

    panel = shown(who.viewer, f"/t/{attempt.slug}/branches")
    chips = panel.split('<span class="branch-chips">')[1:]
    assert ["↳ 1" in chip for chip in chips] == [f"/t/{parent.slug}?" in chip for chip in chips]
    assert "Branch 2: failed, with 1 question about it" in panel
    assert "the questions about them and their share links" in shown(who.owner, f"/t/{attempt.slug}/branches")
    with django_assert_max_num_queries(16):
        who.viewer.get(f"/t/{parent.slug}/branches")

    do_delete_question(question)
    assert not BranchQuestion.objects.exists()
    assert not Trajectory.with_branches.filter(split="branch").exists()
    assert who.anonymous.get(f"/s/{link.token}").status_code == 404
    assert AuditEntry.objects.latest("pk").details["questions_about_its_branches"] == 1
