"""Questions about an attempt on its page: who may ask, their states and answers, and the pages of branches."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp import played_branches as made
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, assert_private, play, who
from trainer.journal.branches import Branches
from webapp.branching.models import BranchQuestion
from webapp.pages.branch_charts import by_chance
from webapp.runs.models import Checkpoint, Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

__all__ = ["who"]


@pytest.fixture(scope="module")
def played_run(module_run: Run) -> Run:
    run = play(module_run, finished=2)
    for iteration in (1, 2):
        Checkpoint.objects.create(run=run, iteration=iteration, path="", bytes=0, time=timezone.now())
    return run


@pytest.fixture
def attempt(played_run: Run, run: Run) -> Trajectory:
    found = Trajectory.objects.filter(run=run, iteration=2, split="train").order_by("-turn_count", "pk").first()
    assert found is not None
    assert found.turn_count > 1
    return found


def shown(client: Client, address: str, **query: str) -> str:
    response = client.get(address, query)
    assert response.status_code == 200, f"{response.status_code} at {address}"
    return " ".join(html.unescape(response.content.decode()).split())


def post(client: Client, attempt: Trajectory, values: Mapping[str, str], *, htmx: bool = False) -> Any:
    headers = {"HX-Request": "true"} if htmx else {}
    return client.post(f"/t/{attempt.slug}/branches/ask", values, headers=headers)


def test_members_ask_from_the_form_and_cancel(attempt: Trajectory, who: Visitors) -> None:
    address = f"/t/{attempt.slug}"
    assert_private(f"{address}/branches", who)
    assert_private(f"{address}/branches/ask", who, post=True)
    page = shown(who.owner, address, turn="2")
    assert "those that played it (the checkpoint of iteration 1)" in page
    assert page.count("the checkpoint of iteration 2") == 1
    assert f'name="turn" id="ask-turn" min="1" max="{attempt.turn_count}" value="2"' in page
    assert "<dt><kbd>b</kbd></dt>" in page
    asked = {"kind": "branch", "turn": "2", "samples": "4", "checkpoint": "0", "temperature": "0", "fresh_luck": "on"}
    asked |= {"change": "thought", "text": "Push it\r\nup."}
    assert post(who.viewer, attempt, asked).status_code == 403
    assert not BranchQuestion.objects.exists()
    for _ in range(2):
        response = post(who.owner, attempt, asked)
        question = BranchQuestion.objects.get()
        assert response.headers["Location"] == f"{address}?turn=2#question-{question.slug}"
    assert (question.turn, question.samples, question.checkpoint, question.temperature) == (1, 4, 0, 0.0)
    assert (question.luck, question.change) == ("fresh", {"thought": "Push it\nup."})
    page = shown(who.owner, address)
    assert "No worker is running: this starts as soon as one is." in page
    assert "the thought changed" in page
    assert "the initial policy · greedy · new luck · ada," in page
    assert "htmx" in page.split("</head>")[0]
    fragment = post(who.owner, attempt, {"kind": "value", "samples_of_turns": "2"}, htmx=True).content.decode()
    value = BranchQuestion.objects.get(kind="value")
    assert f'data-asked="question-{value.slug}"' in fragment
    assert (value.turn, value.samples, value.total) == (None, 2, 2 * attempt.turn_count)
    delete = f"{address}/branches/{question.slug}/delete"
    assert who.viewer.post(delete).status_code == 403
    assert "Cancelled." in html.unescape(who.owner.post(delete, follow=True).content.decode())
    assert who.owner.post(delete).status_code == 404
    assert BranchQuestion.objects.get() == value


def test_weights_of_another_run_and_questions_of_others(
    attempt: Trajectory, who: Visitors, people: People, run: Run
) -> None:
    other = Run.objects.create(team=people.team, author=people.owner, title="Another", config=run.config)
    asked = {"kind": "branch", "turn": "1", "samples": "2", "run": f"http://testserver/runs/{other.slug}/?tab=curves"}
    assert "No checkpoint of that run is kept" in html.unescape(post(who.owner, attempt, asked).content.decode())
    Checkpoint.objects.create(run=other, iteration=7, path="", bytes=0, time=timezone.now())
    before = shown(who.viewer, f"/t/{attempt.slug}")
    assert post(who.owner, attempt, asked).status_code == 302
    question = BranchQuestion.objects.get()
    assert (question.weights_run, question.checkpoint) == (other, None)
    assert "the newest checkpoint of Another" in shown(who.owner, f"/t/{attempt.slug}")
    address = f"/t/{attempt.slug}/branches"
    assert "1 new question<" in shown(who.viewer, address, newest="")
    assert who.viewer.get(address, {"newest": question.slug}).status_code == 204
    assert "1 new question" not in before
    for wrong in ("ZZZZZZZZZZZZ", "mine"):
        page = post(who.owner, attempt, asked | {"run": wrong}).content.decode()
        assert page.split('id="ask-run-error">')[1].startswith("Your teams have no such run")


def test_a_change_is_compared_with_no_change(attempt: Trajectory, who: Visitors, people: People) -> None:
    changed = made.branches(attempt, people.owner, [True, False], turn=1, change={"thought": "Left!"})
    assert "Also without the change" in shown(who.owner, f"/t/{attempt.slug}")
    assert post(who.owner, attempt, {"unchanged": changed.slug}).status_code == 302
    same = BranchQuestion.objects.exclude(pk=changed.pk).get()
    assert (same.turn, same.samples, same.change) == (changed.turn, changed.samples, {})
    made.begin(same)
    made.finish(same, Branches(solved=made.share(2, 2), failed=0))
    page = shown(who.viewer, f"/t/{attempt.slug}")
    assert "without the change 2 of 2" in page
    assert "Also without the change" not in page
    recorded = attempt.turns.get(number=1).event["thought"]
    form = {"kind": "branch", "turn": "2", "samples": "2", "change": "thought", "text": f" {recorded}\n"}
    page = post(who.owner, attempt, form).content.decode()
    assert page.split('id="ask-change-error">')[1].startswith("This is the recorded thought")


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ({"a": 4}, {"a": 4}, 0),
        ({"a": 1}, {"b": 1}, 1),
        ({"a": 2}, {"b": 2}, 2 / 6),  # two of the six ways to deal a, a, b, b part them, the others do not
        ({"a": 2, "b": 1}, {}, 0),
    ],
)
def test_the_distance_by_chance(one: dict[str, int], other: dict[str, int], distance: float) -> None:
    assert by_chance(one, other) == pytest.approx(distance)


def test_what_is_wrong_is_said_at_its_field_and_the_text_is_kept(attempt: Trajectory, who: Visitors) -> None:
    form = {"kind": "branch", "turn": "1", "samples": "4", "change": "thought", "text": "My own words."}
    for field, text, identity, message in (
        ("turn", "99", "ask-turn", f"The attempt has {attempt.turn_count} turns"),
        ("turn", "two", "ask-turn", "Choose a turn of the attempt"),
        ("samples", "65", "ask-samples", "Enter a whole number from 1 to 64."),
        ("temperature", "hot", "ask-temperature", "Enter a number from 0 to 10"),
        ("checkpoint", "7", "ask-checkpoint", "These weights are not kept"),
    ):
        for htmx in (False, True):
            response = post(who.owner, attempt, form | {field: text}, htmx=htmx)
            assert response.status_code == (200 if htmx else 400)
            page = " ".join(html.unescape(response.content.decode()).split())
            error = page.split(f'id="{identity}-error">')[1].split("<")[0]
            assert error.startswith(message), f"{field}: {error}"
            assert page.count('aria-invalid="true"') == 1
            assert "My own words." in page
            assert '<details class="ask" id="play-on" open>' in page
    empty = post(who.owner, attempt, form | {"change": "answer", "text": ""}, htmx=True).content.decode()
    assert empty.split('id="ask-change-error">')[1].startswith("The changed text is empty.")
    assert "Input should be" in post(who.owner, attempt, form | {"kind": "else"}).content.decode()
    assert not BranchQuestion.objects.exists()


def test_an_attempt_without_weights_says_why_to_members_only(attempt: Trajectory, who: Visitors) -> None:
    Run.objects.filter(pk=attempt.run_id).update(visibility=Run.Visibility.LINK)
    assert 'id="branches"' not in shown(who.anonymous, f"/t/{attempt.slug}"), "nothing was asked: nothing to see"
    Trajectory.objects.filter(pk=attempt.pk).update(superseded=True)
    reason = "a later attempt of the run replaced this one, and its weights."
    page = shown(who.viewer, f"/t/{attempt.slug}")
    assert reason in page
    assert '<details class="panel branches-refused" id="branches">' in page
    assert reason not in shown(who.anonymous, f"/t/{attempt.slug}")
    response = post(who.owner, attempt, {"kind": "branch", "turn": "1", "samples": "4"})
    assert response.status_code == 409
    assert reason in response.content.decode()
    assert not BranchQuestion.objects.exists()


def test_a_running_question_shows_progress_and_what_is_written(
    attempt: Trajectory, people: People, who: Visitors
) -> None:
    question = made.ask(attempt, people.owner)
    made.begin(question)
    made.play_on(question, [True, False, False])
    question.partial = {"3": {"turn": 1, "text": "Push the <box>"}, "x": {"turn": None}, "4": {"turn": 2, "text": "9"}}
    question.save()
    address = f"/t/{attempt.slug}/branches"
    row = shown(who.viewer, address, question=question.slug)
    assert "3 of 8 branches" in row
    assert '<progress max="8" value="3"' in row
    assert "Branch 4, turn 2</b> Push the <box>" in row
    assert row.count(">…</span>") == 5, "branches that are not played"
    assert "Branch 1: solved" in row
    assert "Left, Up" in row
    assert "Down, Down, Right" in row
    assert 'data-announce="Turn 2: a worker plays on."' in row, "not a word each second"
    assert "Cancel" not in row
    assert f'href="/t/{Trajectory.with_branches.get(group=question.group_id, member=0).slug}?turn=2"' in row
    same = row.split("shown=")[1].split('"')[0]
    poll = {"question": question.slug, "shown": same}
    assert who.viewer.get(address, poll).status_code == 204
    made.finish(question, Branches(solved=made.share(1, 3), failed=1))
    row = who.viewer.get(address, poll).content.decode()
    assert "1 of 3 solved; the environment failed in 1" in row
    assert "33% (95% interval 6% to 79%)" in row
    assert "hx-get" not in row
    question.delete()
    gone = who.viewer.get(address, poll)
    assert (gone.status_code, gone.content) == (200, b""), "the row disappears"


def test_a_failed_question_is_asked_again(attempt: Trajectory, people: People, who: Visitors) -> None:
    question = made.ask(attempt, people.owner, state="failed", error="The checkpoint of iteration 1 was deleted.")
    page = shown(who.owner, f"/t/{attempt.slug}")
    assert '<p class="bad" role="alert">The checkpoint of iteration 1 was deleted.</p>' in page
    response = post(who.owner, attempt, {"again": question.slug})
    again = BranchQuestion.objects.get()
    assert (again.state, again.turn, again.samples) == ("queued", 1, 8)
    assert response.headers["Location"].endswith(f"#question-{again.slug}")
    BranchQuestion.objects.update(state="done", result={"type": "branches", "solved": "many"})
    assert "The answer of the worker cannot be read." in shown(who.owner, f"/t/{attempt.slug}")


def test_visitors_of_an_open_run_see_answers_without_names(attempt: Trajectory, people: People, who: Visitors) -> None:
    made.branches(attempt, people.owner, [True, False, True])
    Run.objects.filter(pk=attempt.run_id).update(visibility=Run.Visibility.LINK)
    page = shown(who.anonymous, f"/t/{attempt.slug}")
    panel = page.split('<section class="panel branches"')[1]
    assert "2 of 3 solved" in panel
    assert "ada" not in panel.split("Related attempts")[0]
    assert "<form" not in panel.split("Related attempts")[0]
    assert "htmx.min.js" not in page, "nothing changes"


def test_many_branches_are_grouped_by_their_next_actions(
    attempt: Trajectory, people: People, who: Visitors, django_assert_max_num_queries: Any
) -> None:
    made.branches(attempt, people.owner, [number % 5 == 0 for number in range(64)], variants=24)
    for _ in range(3):
        made.branches(attempt, people.owner, [True, False], temperature=0.5 + BranchQuestion.objects.count())
    page = shown(who.viewer, f"/t/{attempt.slug}/branches")
    assert page.count('class="branch-chip ') == 64 + 3 * 2
    assert "more branches, with 14 other next actions" in page
    assert "1 of 3 solved" in page
    with django_assert_max_num_queries(11):
        who.viewer.get(f"/t/{attempt.slug}/branches")


def test_value_and_thoughts_are_drawn(attempt: Trajectory, people: People, who: Visitors) -> None:
    made.value(attempt, people.owner, [14, *[3] * (attempt.turn_count - 1)])
    page = shown(who.viewer, f"/t/{attempt.slug}")
    assert "Turn 1 cost the most" in page
    link = '<a href="?turn=1" data-goto="0 -1">turn 1</a>'
    assert f"From the start of {link} 14 of 16 continuations solve it, after it 3 of 16." in page
    assert 'aria-label="Share solved from each turn: turn 1 88%, turn 2 19%' in page
    assert ">68% to 100%</td>" in page
    assert ">−68.8</td>" in page
    BranchQuestion.objects.all().delete()
    made.value(attempt, people.owner, [0] * attempt.turn_count, outcome=None)
    assert "No turn lost anything" in shown(who.viewer, f"/t/{attempt.slug}")
    made.thoughts(attempt, people.owner)
    page = shown(who.viewer, f"/t/{attempt.slug}")
    assert "another attempt’s thought 0.94, its thought with false claims 0.38" in page
    assert "Left, Up ×12 · Down ×3 · no action ×1" in page
    assert 'class="part" width="94.0"' in page
    assert "Target 2,5. Push Up from 4,4." in page


def test_pages_of_a_branch(attempt: Trajectory, people: People, who: Visitors) -> None:
    question = made.branches(attempt, people.owner, [True, False, True], change={"thought": "Push it up."})
    first, second, third = Trajectory.with_branches.filter(group=question.group_id).order_by("member")
    address, origin = f"/t/{second.slug}", f"/t/{attempt.slug}"
    page = shown(who.owner, address)
    place = f"g{attempt.group.number + 1} · {attempt.member + 1:02d}"
    assert "<h1> Branch 2 of 3 </h1>" in page
    assert f"<title>branch 2 of {place}, iteration 2" in page
    assert f'Played on from <a href="{origin}?turn=2#branches">turn 2</a> of {place} with the checkpoint' in page
    assert "Turn 1 is from its recording." in page
    assert "the thought was changed" in page
    assert f'rel="prev" data-previous href="/t/{first.slug}?turn=2"' in page
    assert f'rel="next" data-next href="/t/{third.slug}?turn=2"' in page
    assert "split=branch" not in page
    assert "only" not in page.split("Related attempts")[1].split("</section>")[0]
    assert f"up to 2: asked at {place}</span>" in page
    data = who.owner.get(f"{address}.json").json()
    assert [turn["thought"] for turn in data["turns"]][1:] == ["Branch 2 thinks."]
    for path in (
        f"{address}/tokens",
        f"{address}/input/2",
        f"{address}/embed",
        f"{address}/diff/{attempt.slug}",
        f"{origin}/diff/{second.slug}",
        f"{address}/annotations",
    ):
        response = who.owner.get(path, headers={"HX-Request": "true"})
        assert response.status_code == 200, path
        assert "split=branch" not in response.content.decode(), path
    assert f"branch 2 of {place}" in shown(who.owner, f"{origin}/diff/{second.slug}")
    assert "branches have the tokens that were sampled" in shown(who.owner, f"{address}/tokens")
    assert who.owner.get(f"{address}/prompt").headers["Location"] == f"{origin}/prompt"
    assert who.owner.get(f"{address}/picture.png").headers["Content-Type"] == "image/png"
    assert who.owner.get(f"{address}/film.png").status_code == 404
    assert who.owner.get(f"{address}/reading.json").status_code == 404
    document = json.loads(who.owner.get(f"{address}/export/json").content)
    assert document["branch"] == {"turn": 1, "checkpoint": 1, "change": {"thought": "Push it up."}}
    assert (document["split"], document["group"]) == ("branch", attempt.group.number)
    transcript = who.owner.get(f"{address}/export/txt").content.decode()
    words = "played on from turn 2, with the checkpoint of iteration 1; the thought was changed"
    assert transcript.startswith(f"Sokoban, {words}\n")
    for kind in ("webp", "gif"):
        assert who.owner.get(f"{address}/export/{kind}").status_code == 200
    assert who.owner.post(f"{address}/star", {"on": "1"}).status_code == 302
    assert who.owner.post(f"{address}/comment", {"text": "Better."}).status_code == 302


def test_a_branch_is_shared(attempt: Trajectory, people: People, who: Visitors) -> None:
    question = made.branches(attempt, people.owner, [True])
    branch = Trajectory.with_branches.get(group=question.group_id)
    assert who.owner.post(f"/t/{branch.slug}/share", {"ends": "never"}).status_code == 302
    link = do_share_trajectory(branch, people.owner)
    page = shown(who.anonymous, f"/s/{link.token}")
    assert "<h1>Sokoban · played on from turn 2, with the checkpoint of iteration 1</h1>" in page
    assert attempt.slug not in page
    for path in ("tokens.json", "picture.png", "export/json"):
        assert who.anonymous.get(f"/s/{link.token}/{path}").status_code == 200, path
    assert who.anonymous.get(f"/embed/{link.token}").status_code == 200
    assert who.owner.post(f"/t/{attempt.slug}/branches/{question.slug}/delete").status_code == 302
    assert who.anonymous.get(f"/s/{link.token}").status_code == 404, "deleted with its question"
    assert not Trajectory.with_branches.filter(split="branch").exists()


def test_checkpoints_play_the_start_again_for_a_film(attempt: Trajectory, who: Visitors) -> None:
    address = f"/t/{attempt.slug}"
    assert "Let 2 checkpoints play it" in (page := shown(who.owner, f"{address}/prompt"))
    assert "The initial policy, iteration 2, each from the start" in page
    assert 'id="film-title"' not in page
    assert "play it" not in shown(who.viewer, f"{address}/prompt")
    assert_private(f"{address}/film/progress", who)
    assert_private(f"{address}/film/ask", who, post=True)
    assert who.viewer.post(f"{address}/film/ask").status_code == 403
    assert who.owner.post(f"{address}/film/ask").headers["Location"] == f"{address}/prompt"
    asked = list(BranchQuestion.objects.order_by("checkpoint"))
    assert [(one.checkpoint, one.turn, one.samples, one.temperature) for one in asked] == [
        (0, 0, 1, None),
        (2, 0, 1, None),
    ]
    assert "2 checkpoints have yet to play" in shown(who.owner, f"{address}/film/progress")
    for question, solved in zip(asked, (False, True), strict=True):
        made.begin(question)
        question.used_checkpoint = question.checkpoint
        made.play_on(question, [solved])
        made.finish(question, Branches(solved=made.share(int(solved), 1), failed=0))
    assert who.owner.get(f"{address}/film/progress").headers["HX-Refresh"] == "true"
    page = shown(who.viewer, f"{address}/prompt")
    assert "played by 3 checkpoints · first solved at iteration 1" in page, "by the recorded attempt"
    assert who.viewer.get(f"{address}/film.png").headers["Content-Type"] == "image/png"
    assert "play it" not in shown(who.owner, f"{address}/prompt"), "all have played"
