"""Views of stars, tags and comments: permissions, validation, use without JavaScript."""

from __future__ import annotations

import html
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp import journal_builder
from tests.webapp.annotations.conftest import Member
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from webapp.annotations.actions import do_comment, do_star, do_tag
from webapp.annotations.models import AnnotationVersion, Comment, Star, Tag, Tagging
from webapp.annotations.queries import commented, is_annotated, starred, tagged
from webapp.ingest.tailer import JournalTailer
from webapp.operations.retention import thinnable
from webapp.runs.models import Run
from webapp.teams.actions import do_create_team
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

__all__ = ["who"]


def page_of(client: Client, trajectory: Trajectory) -> str:
    return html.unescape(client.get(f"/t/{trajectory.slug}").content.decode())


def test_a_star_is_set_once_and_removed(trajectory: Trajectory, who: Visitors, people: People) -> None:
    for _ in range(2):
        assert who.owner.post(f"/t/{trajectory.slug}/star", {"on": "1"}).status_code == 302
    assert Star.objects.get().user == people.owner
    assert "starred by ada" in page_of(who.viewer, trajectory)
    who.owner.post(f"/t/{trajectory.slug}/star", {"on": "0"})
    assert not Star.objects.exists()


def test_a_tag_is_normalised_and_disappears_with_its_last_trajectory(trajectory: Trajectory, who: Visitors) -> None:
    for text in ("Corner", " #CORNER ", "two  words"):
        who.owner.post(f"/t/{trajectory.slug}/tag", {"tag": text})
    assert list(Tag.objects.values_list("name", flat=True)) == ["corner", "two words"]
    assert Tagging.objects.count() == 2
    who.owner.post(f"/t/{trajectory.slug}/untag", {"tag": "corner"})
    assert list(Tag.objects.values_list("name", flat=True)) == ["two words"]


@pytest.mark.parametrize(
    "text, message", [("", "at least one letter"), ("x" * 41, "at most 40 characters; this one has 41")]
)
def test_an_invalid_tag_is_refused_with_the_reason(
    trajectory: Trajectory, who: Visitors, text: str, message: str
) -> None:
    answer = who.owner.post(f"/t/{trajectory.slug}/tag", {"tag": text}, headers={"HX-Request": "true"})
    assert message in answer.content.decode()
    assert message in who.owner.post(f"/t/{trajectory.slug}/tag", {"tag": text}, follow=True).content.decode()
    assert not Tag.objects.exists()


def test_a_comment_on_a_turn_is_shown_there_and_has_a_link(trajectory: Trajectory, who: Visitors) -> None:
    answer = who.owner.post(f"/t/{trajectory.slug}/comment", {"text": "Why <left>?\nhttps://example.org", "turn": "1"})
    comment = Comment.objects.get()
    assert answer.headers["Location"] == f"/t/{trajectory.slug}?turn=1#comment-{comment.slug}"
    page = who.viewer.get(f"/t/{trajectory.slug}?turn=1").content.decode()
    assert f'id="comment-{comment.slug}"' in page
    assert 'data-thread="0"' in page
    assert "Why &lt;left&gt;?" in page
    assert contains(page, '<a href="https://example.org" rel="nofollow">')


def test_a_viewer_comments_but_neither_stars_nor_tags(trajectory: Trajectory, who: Visitors) -> None:
    assert who.viewer.post(f"/t/{trajectory.slug}/comment", {"text": "I see."}).status_code == 302
    assert Comment.objects.get().author is not None
    for address, data in (("star", {"on": "1"}), ("tag", {"tag": "x"}), ("untag", {"tag": "x"})):
        assert who.viewer.post(f"/t/{trajectory.slug}/{address}", data).status_code == 403
    page = page_of(who.viewer, trajectory)
    assert "/star" not in page
    assert "Add a tag" not in page
    assert 'name="text"' in page


def test_a_share_link_shows_the_trajectory_without_annotations(
    trajectory: Trajectory, who: Visitors, people: People
) -> None:
    do_comment(trajectory, people.owner, "Only for us.")
    do_tag(trajectory, people.owner, "only-our-tag")
    do_star(trajectory, people.owner)
    link = do_share_trajectory(trajectory, people.owner)
    Run.objects.filter(pk=trajectory.run_id).update(visibility=Run.Visibility.LINK)
    for client in (who.anonymous, who.outsider):
        for address in (f"/s/{link.token}", f"/t/{trajectory.slug}"):
            answer = client.get(address)
            page = answer.content.decode()
            assert answer.status_code == 200
            assert "Only for us." not in page
            assert "only-our-tag" not in page
            assert "data-annotations" not in page
    assert who.outsider.get(f"/t/{trajectory.slug}/annotations").status_code == 404
    assert who.outsider.post(f"/t/{trajectory.slug}/comment", {"text": "Let me in"}).status_code == 404
    assert Comment.objects.count() == 1


def test_only_the_author_and_admins_change_a_comment(
    trajectory: Trajectory, who: Visitors, people: People, member: Member
) -> None:
    comment = do_comment(trajectory, people.viewer, "A first thought.")
    address = f"/comments/{comment.slug}"
    assert member.client.get(f"{address}/edit").status_code == 403
    assert member.client.post(f"{address}/edit", {"text": "Not mine"}).status_code == 403
    assert member.client.post(f"{address}/delete").status_code == 403
    assert "A first thought." in who.viewer.get(f"{address}/edit").content.decode()
    assert who.viewer.post(f"{address}/edit", {"text": "A second thought."}).status_code == 302
    comment.refresh_from_db()
    assert comment.text == "A second thought."
    assert comment.edited_at is not None
    assert "edited" in page_of(who.owner, trajectory)
    assert who.owner.post(f"{address}/delete").status_code == 302
    assert not Comment.objects.exists()


def test_an_empty_or_too_long_comment_is_refused_and_its_text_kept(
    trajectory: Trajectory, who: Visitors, people: People
) -> None:
    comment = do_comment(trajectory, people.owner, "Here.")
    for text, message in (("  ", "is empty"), ("x" * 4001, "at most 4,000 characters")):
        answer = who.owner.post(f"/t/{trajectory.slug}/comment", {"text": text}, follow=True)
        assert message in answer.content.decode()
        edited = who.owner.post(f"/comments/{comment.slug}/edit", {"text": text})
        assert message in edited.content.decode()
        assert text in edited.content.decode()
    assert Comment.objects.get().text == "Here."
    assert (
        "no turn 900"
        in who.owner.post(
            f"/t/{trajectory.slug}/comment", {"text": "Where?", "turn": "900"}, follow=True
        ).content.decode()
    )


def test_with_htmx_a_change_returns_the_updated_panel(trajectory: Trajectory, who: Visitors) -> None:
    htmx = {"HX-Request": "true"}
    answer = who.owner.post(f"/t/{trajectory.slug}/comment", {"text": "Look."}, headers=htmx)
    assert answer.headers["HX-Trigger"] == "annotations:comment"
    shown = answer.content.decode()
    assert shown.lstrip().startswith('<div id="annotation-state"')
    assert 'data-version="1"' in shown
    assert "Look." in shown
    again = who.viewer.get(f"/t/{trajectory.slug}/annotations", headers=htmx).content.decode()
    assert "Look." in again
    assert who.viewer.get(f"/t/{trajectory.slug}/annotations").headers["Location"].endswith("#annotations")


def test_only_effective_changes_are_counted(trajectory: Trajectory, people: People) -> None:
    do_star(trajectory, people.owner)
    do_star(trajectory, people.owner)
    do_tag(trajectory, people.owner, "x")
    do_tag(trajectory, people.owner, "X")
    do_comment(trajectory, people.owner, "one")
    assert AnnotationVersion.objects.get().version == 3


def test_the_query_count_of_the_panel_is_constant(
    trajectory: Trajectory,
    who: Visitors,
    people: People,
    member: Member,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for number in range(12):
        do_comment(trajectory, people.owner, f"@grace @linus look {number}", number % 2)
        do_tag(trajectory, people.owner, f"tag {number}")
    do_star(trajectory, member.user)
    with django_assert_max_num_queries(10):
        page = who.owner.get(f"/t/{trajectory.slug}/annotations", headers={"HX-Request": "true"}).content.decode()
    assert page.count('class="comment"') == 12


def test_filters_find_starred_tagged_and_commented_trajectories(trajectory: Trajectory, people: People) -> None:
    first, second, third, fourth = Trajectory.objects.order_by("pk")[:4]
    do_star(first, people.owner)
    do_tag(second, people.owner, "Corner")
    do_comment(third, people.viewer, "Hm.")
    everything = Trajectory.objects.all()
    assert everything.filter(starred()).get() == first
    assert everything.filter(tagged(" #CORNER")).get() == second
    assert everything.filter(commented()).get() == third
    assert set(everything.filter(is_annotated())) == {first, second, third}
    assert fourth not in everything.filter(is_annotated())


def test_annotated_trajectories_are_never_thinned(trajectory: Trajectory, people: People) -> None:
    run = trajectory.run
    Trajectory.objects.update(superseded=True)
    run.team.retention_days = 1
    run.team.save()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, ended_at=timezone.now() - timedelta(days=3))
    assert trajectory in thinnable(timezone.now())
    do_comment(trajectory, people.owner, "Keep this.")
    assert trajectory not in thinnable(timezone.now())
    assert thinnable(timezone.now()).exists()


def test_tags_belong_to_one_team(trajectory: Trajectory, people: People) -> None:
    elsewhere = do_create_team("Third", people.outsider)
    Tag.objects.create(team=elsewhere, name="their secret word")
    do_tag(trajectory, people.owner, "our word")
    from webapp.annotations.panel import panel_data
    from webapp.teams.models import Membership

    shown = panel_data(people.owner, trajectory, Membership.Role.ADMIN)
    assert (shown["tags"], shown["vocabulary"]) == (["our word"], [])


def test_annotated_trajectories_survive_a_replayed_iteration(
    run: Run, people: People, tmp_path: Path, settings: Settings
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    journal_builder.write(
        run.folder, journal_builder.started(), *journal_builder.iteration(1), *journal_builder.iteration(2)
    )
    JournalTailer(run).drain()
    marked, other = Trajectory.objects.filter(run=run, iteration=2).order_by("pk")[:2]
    do_comment(marked, people.owner, "Remember this one.", 0)
    journal_builder.write(
        run.folder, journal_builder.started(attempt=2, from_iteration=1), *journal_builder.iteration(2)
    )
    run.refresh_from_db()
    JournalTailer(run).drain()
    marked.refresh_from_db()
    assert marked.superseded
    assert marked.turns.exists()
    assert not Trajectory.objects.filter(pk=other.pk).exists()


def test_tags_used_on_private_runs_only_are_not_suggested_to_others(
    trajectory: Trajectory, who: Visitors, people: People, member: Member
) -> None:
    other = Run.objects.create(
        team=people.team,
        author=people.owner,
        title="Team run",
        config=trajectory.run.config,
        environment="Sokoban",
        iterations=4,
    )
    JournalTailer(other, journal_folder(other)).drain()
    shown = other.trajectories.order_by("pk")[0]
    do_tag(trajectory, people.owner, "canary")
    do_tag(shown, people.owner, "common")
    assert "canary" in page_of(member.client, shown)
    Run.objects.filter(pk=trajectory.run_id).update(visibility=Run.Visibility.PRIVATE)
    explorer = f"/runs/{other.slug}/trajectories"
    for address in (f"/t/{shown.slug}", explorer):
        for client in (member.client, who.viewer):
            page = client.get(address).content.decode()
            assert "canary" not in page
            assert "common" in page
        assert "canary" in who.owner.get(address).content.decode(), "its author sees it"


def journal_folder(run: Run) -> Path:
    """The folder of a short journal of the run."""
    return journal_builder.write(run.folder, *journal_builder.whole_run(1)).parent
