"""Visibility of runs (private, team, anyone with the link) in lists, pages, sockets and changes."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser

from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, assert_private, play, who
from tests.webapp.teams.members import add_member, browser_of
from webapp.runs.models import Run
from webapp.teams.actions import do_remove_member, do_set_role
from webapp.teams.models import Membership
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

__all__ = ["who"]

OPEN_TABS = ["", "snapshot.json", "trajectories", "curves", "curves.json?names=a", "evaluation", "configuration"]


def see(run: Run, visibility: str) -> Run:
    Run.objects.filter(pk=run.pk).update(visibility=visibility)
    run.refresh_from_db()
    return run


def readers(run: Run, people: People) -> set[str]:
    """Users who may read the run according to the querysets; equal for its trajectories."""
    author = add_member(people, "author")
    Run.objects.filter(pk=run.pk).update(author=author)
    users = {
        "author": author,
        "admin": people.owner,
        "member": add_member(people),
        "viewer": people.viewer,
        "outsider": people.outsider,
        "anonymous": AnonymousUser(),
    }
    found = {name for name, user in users.items() if Run.objects.visible_to(user).filter(pk=run.pk).count() == 1}
    for name, user in users.items():
        listed = Run.objects.listed_for(user).filter(pk=run.pk).count()
        assert listed == (name in found and name not in {"outsider", "anonymous"}), f"the list of {name}"
        played = Trajectory.objects.visible_to(user).filter(run=run).count()
        assert played == (run.trajectories.count() if name in found else 0), f"the trajectories for {name}"
    return found


@pytest.mark.parametrize(
    ("visibility", "expected"),
    [
        ("private", {"author", "admin"}),
        ("team", {"author", "admin", "member", "viewer"}),
        ("link", {"author", "admin", "member", "viewer", "outsider", "anonymous"}),
    ],
)
def test_each_visibility_has_its_readers(visibility: str, expected: set[str], run: Run, people: People) -> None:
    play(run)
    assert readers(see(run, visibility), people) == expected


def test_a_private_run_of_a_former_member_stays_visible_to_admins(run: Run, people: People) -> None:
    author = add_member(people, "author")
    Run.objects.filter(pk=run.pk).update(author=author, visibility="private")
    do_remove_member(people.team, author)
    assert not Run.objects.visible_to(author).exists()
    assert not Run.objects.listed_for(author).exists()
    assert Run.objects.visible_to(people.owner).exists()


def test_an_admin_of_two_teams_sees_a_private_run_once(run: Run, people: People) -> None:
    do_set_role(people.team, people.outsider, Membership.Role.ADMIN)
    see(run, "private")
    assert Run.objects.visible_to(people.outsider).count() == 1
    assert Run.objects.listed_for(people.outsider).count() == 1


def test_a_public_run_is_not_found_by_search_engines(run: Run, who: Visitors) -> None:
    for tab in OPEN_TABS:
        response = who.anonymous.get(f"/runs/{see(run, 'link').slug}/{tab}")
        assert response.status_code == 200
        assert "noindex" in response["X-Robots-Tag"]


def test_trajectories_of_a_public_run_are_public_without_its_links(run: Run, people: People, who: Visitors) -> None:
    play(see(run, "link"))
    found = Trajectory.objects.filter(run=run).order_by("-turn_count")[0]
    token = do_share_trajectory(found, people.owner).token
    for client in (who.anonymous, who.outsider):
        page = client.get(f"/t/{found.slug}")
        assert page.status_code == 200
        assert token not in page.content.decode()
        assert client.get(f"/t/{found.slug}.json").status_code == 200
    assert token in who.viewer.get(f"/t/{found.slug}").content.decode()
    assert who.anonymous.get(f"/runs/{run.slug}/t/{found.key}")["Location"] == f"/t/{found.slug}"
    see(run, "private")
    assert_private(f"/t/{found.slug}", who)
    assert who.viewer.get(f"/t/{found.slug}").status_code == 404


def test_the_log_is_visible_to_the_team_only(run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=see(run, "link").pk).update(state="failed", failure="It broke.", log_tail="/home/ada/secret")
    for path in ("log", "log.json", "log.txt"):
        assert_private(f"/runs/{run.slug}/{path}", who)
    page = who.anonymous.get(f"/runs/{run.slug}/").content.decode()
    assert "It broke." not in page
    assert "/home/ada/secret" not in page
    assert f"/runs/{run.slug}/log" not in page
    assert "/home/ada/secret" in who.viewer.get(f"/runs/{run.slug}/").content.decode()


def test_an_outsider_cannot_change_a_public_run(run: Run, who: Visitors) -> None:
    see(run, "link")
    page = who.outsider.get(f"/runs/{run.slug}/").content.decode()
    assert not contains(page, ">Pause</button>")
    assert not contains(page, "<legend>Visibility</legend>")
    assert who.outsider.post(f"/runs/{run.slug}/pause").status_code == 403
    assert who.anonymous.post(f"/runs/{run.slug}/pause")["Location"].startswith("/login")
    run.refresh_from_db()
    assert run.state == Run.State.QUEUED


def test_anonymous_readers_get_a_login_link_back_to_the_page(run: Run, who: Visitors) -> None:
    page = who.anonymous.get(f"/runs/{see(run, 'link').slug}/").content.decode()
    assert f'href="/login?next=/runs/{run.slug}/"' in page
    assert not contains(page, ">Runs</a>")


def set_visibility(client: object, run: Run, visibility: str, **more: str) -> int:
    response = client.post(f"/runs/{run.slug}/visibility", {"visibility": visibility} | more)  # type: ignore[attr-defined]
    run.refresh_from_db()
    return int(response.status_code)


def test_writers_set_the_visibility_of_a_run(run: Run, people: People, who: Visitors) -> None:
    member = browser_of(add_member(people))
    assert set_visibility(member, run, "link") == 302
    assert run.visibility == "link"
    assert contains(member.get(f"/runs/{run.slug}/").content.decode(), "<legend>Visibility</legend>")
    assert set_visibility(member, run, "team") == 302
    assert run.visibility == "team"
    address = f"/runs/{run.slug}/visibility"
    assert who.viewer.post(address, {"visibility": "link"}).status_code == 403
    assert_private(address, who, post=True)
    assert set_visibility(who.owner, run, "everybody") == 302
    assert run.visibility == "team"


def test_only_its_author_and_admins_hide_a_run_from_the_team(run: Run, people: People, who: Visitors) -> None:
    author = add_member(people, "author")
    Run.objects.filter(pk=run.pk).update(author=author)
    other = browser_of(add_member(people))
    assert set_visibility(other, run, "private") == 403
    assert run.visibility == "team"
    assert contains(other.get(f"/runs/{run.slug}/").content.decode(), "Only they can choose this")
    assert set_visibility(browser_of(author), run, "private") == 302
    assert run.visibility == "private"
    assert other.get(f"/runs/{run.slug}/").status_code == 404
    assert set_visibility(who.owner, run, "team") == 302


def test_the_form_leads_back_to_a_page_of_this_site_only(run: Run, who: Visitors) -> None:
    address = f"/runs/{run.slug}/visibility"
    back = who.owner.post(address, {"visibility": "team", "next": f"/runs/{run.slug}/curves"})
    assert back["Location"] == f"/runs/{run.slug}/curves"
    away = who.owner.post(address, {"visibility": "team", "next": "//evil.example/"})
    assert away["Location"] == f"/runs/{run.slug}/"


def test_a_non_default_visibility_is_shown_to_readers(run: Run, who: Visitors) -> None:
    see(run, "link")
    assert "Anyone with the link" in who.viewer.get(f"/runs/{run.slug}/").content.decode()


def test_making_a_run_private_names_its_open_share_links_and_offers_to_revoke_them(
    run: Run, people: People, who: Visitors
) -> None:
    first, second = Trajectory.objects.filter(run=play(run))[:2]
    links = [do_share_trajectory(each, people.owner) for each in (first, second)]
    revoke = f"/runs/{run.slug}/shares/revoke"
    assert revoke not in who.owner.get(f"/runs/{run.slug}/").content.decode()
    page = who.owner.post(f"/runs/{run.slug}/visibility", {"visibility": "private"}, follow=True).content.decode()
    assert "2 share links to its attempts still work, for anyone." in page
    assert contains(page, f'action="{revoke}"')
    assert who.anonymous.get(f"/s/{links[0].token}").status_code == 200
    assert_private(revoke, who, post=True)
    assert who.viewer.post(revoke).status_code == 404
    done = who.owner.post(revoke, {"next": f"/runs/{run.slug}/curves"}, follow=True)
    assert done.redirect_chain[0][0] == f"/runs/{run.slug}/curves"
    assert "2 share links revoked." in done.content.decode()
    assert revoke not in done.content.decode()
    for link in links:
        assert who.anonymous.get(f"/s/{link.token}").status_code == 404
    assert "no open share links" in who.owner.post(revoke, {"next": "https://evil.org"}, follow=True).content.decode()


def test_viewers_revoke_no_links_of_a_run(run: Run, people: People, who: Visitors) -> None:
    link = do_share_trajectory(Trajectory.objects.filter(run=play(run))[0], people.owner)
    assert who.viewer.post(f"/runs/{run.slug}/shares/revoke").status_code == 403
    assert who.anonymous.get(f"/s/{link.token}").status_code == 200
