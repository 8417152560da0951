"""Team page: visibility, permissions, and at least one admin at all times."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, play, who
from tests.webapp.teams.members import add_member, browser_of
from webapp.runs.models import Run
from webapp.teams.actions import (
    TeamRefused,
    do_create_team,
    do_invite,
    do_remove_member,
    do_revoke_invitation,
    do_set_role,
)
from webapp.teams.models import Invitation, Membership, Team
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import ShareLink, Trajectory

__all__ = ["who"]

ADMIN, MEMBER, VIEWER = Membership.Role.ADMIN, Membership.Role.MEMBER, Membership.Role.VIEWER


def test_the_page_is_visible_to_members_only(people: People, who: Visitors) -> None:
    address = f"/team/{people.team.slug}"
    for client in (who.owner, who.viewer):
        page = client.get(address).content.decode()
        assert "grace" in page
        assert "mallory" not in page
    assert who.outsider.get("/team/there-is-none").status_code == 404


def test_only_admins_see_admin_controls(people: People, who: Visitors) -> None:
    do_invite(people.team, people.owner, MEMBER)
    member = browser_of(add_member(people))
    owner_page = who.owner.get(f"/team/{people.team.slug}").content.decode()
    assert contains(owner_page, "Invitations</h2>")
    assert "Remove grace" in owner_page
    for client in (member, who.viewer):
        page = client.get(f"/team/{people.team.slug}").content.decode()
        assert not contains(page, "Invitations</h2>")
        assert "/invitations/" not in page
        assert "Remove ada" not in page
        assert 'name="retention_days"' not in page


def test_only_admins_may_change_the_team(people: People, who: Visitors) -> None:
    for path, data in (("settings", {"name": "Ours now"}), ("members/ada/role", {"role": "viewer"})):
        refused = who.viewer.post(f"/team/{people.team.slug}/{path}", data)
        assert refused.status_code == 403
        assert "Only admins of this team" in refused.content.decode()
    people.team.refresh_from_db()
    assert people.team.name == "Agents"
    assert people.team.memberships.get(user=people.owner).role == ADMIN
    assert not Invitation.objects.exists()


def test_an_admin_changes_roles(people: People, who: Visitors) -> None:
    address = f"/team/{people.team.slug}/members/grace/role"
    who.owner.post(address, {"role": "member"})
    assert people.team.memberships.get(user=people.viewer).role == MEMBER
    who.owner.post(address, {"role": "emperor"})
    assert people.team.memberships.get(user=people.viewer).role == MEMBER
    assert who.owner.post(f"/team/{people.team.slug}/members/mallory/role", {"role": "admin"}).status_code == 404


def test_the_last_admin_cannot_be_demoted_removed_or_leave(people: People, who: Visitors) -> None:
    base = f"/team/{people.team.slug}/members/ada"
    for path, data in (("role", {"role": "viewer"}), ("remove", {})):
        page = who.owner.post(f"{base}/{path}", data, follow=True).content.decode()
        assert "ada is the last admin of Agents" in page
    assert people.team.memberships.get(user=people.owner).role == ADMIN
    page = who.owner.get(f"/team/{people.team.slug}").content.decode()
    assert "You are the only admin" in page
    assert not contains(page, ">Leave</button>")
    do_set_role(people.team, people.viewer, ADMIN)
    who.owner.post(f"{base}/role", {"role": "viewer"})
    assert people.team.memberships.get(user=people.owner).role == VIEWER
    with pytest.raises(TeamRefused, match="grace is the last admin"):
        do_remove_member(people.team, people.viewer)


def test_members_can_leave(people: People, who: Visitors) -> None:
    left = who.viewer.post(f"/team/{people.team.slug}/members/grace/remove", follow=True)
    assert "You left Agents" in left.content.decode()
    assert who.viewer.get(f"/team/{people.team.slug}").status_code == 404


def test_invitations_end_when_their_author_loses_admin_rights(people: People) -> None:
    second = add_member(people, "second", ADMIN)
    third = add_member(people, "third", ADMIN)
    do_invite(people.team, second, MEMBER)
    do_invite(people.team, third, MEMBER)
    do_invite(people.team, people.owner, MEMBER)
    do_set_role(people.team, second, MEMBER)
    do_remove_member(people.team, third)
    still = Invitation.objects.open(timezone.now())
    assert [invitation.author for invitation in still] == [people.owner]


def test_name_and_retention_are_set(people: People, who: Visitors) -> None:
    address = f"/team/{people.team.slug}/settings"
    who.owner.post(address, {"name": "Agents & co", "retention_days": "30"})
    people.team.refresh_from_db()
    assert (people.team.name, people.team.retention_days) == ("Agents & co", 30)
    assert "for 30 days after their run ended" in who.viewer.get(f"/team/{people.team.slug}").content.decode()
    page = who.owner.post(address, {"name": "X", "retention_days": "-3"}, follow=True).content.decode()
    assert "Nothing was changed. Keep training attempts for" in page
    who.owner.post(address, {"name": "Agents", "retention_days": ""})
    people.team.refresh_from_db()
    assert (people.team.name, people.team.retention_days) == ("Agents", None)


def shared(run: Run, people: People, count: int = 1) -> list[ShareLink]:
    play(run)
    return [do_share_trajectory(found, people.owner) for found in Trajectory.objects.filter(run=run)[:count]]


def test_the_audit_lists_every_share_link_with_its_state(run: Run, people: People, who: Visitors) -> None:
    link, ended = shared(run, people, 2)
    ShareLink.objects.filter(pk=link.pk).update(views=42)
    ShareLink.objects.filter(pk=ended.pk).update(expires_at=timezone.now() - timedelta(days=1))
    page = who.viewer.get(f"/team/{people.team.slug}").content.decode()
    assert page.count(f'href="/t/{link.trajectory.slug}"') == 1
    assert contains(page, ">42<")
    assert contains(page, ">active<")
    assert contains(page, ">expired<")
    assert "Revoke the link" not in page, "viewers only look"
    address = f"/team/{people.team.slug}/shares/{link.token}/revoke"
    who.owner.post(address)
    assert who.anonymous.get(f"/s/{link.token}").status_code in (404, 410)
    assert contains(who.viewer.get(f"/team/{people.team.slug}").content.decode(), ">revoked<")


def test_links_can_be_revoked_by_their_own_team_only(run: Run, people: People, who: Visitors) -> None:
    (link,) = shared(run, people)
    other = Team.objects.get(name="Elsewhere")
    assert who.outsider.post(f"/team/{other.slug}/shares/{link.token}/revoke").status_code == 404
    link.refresh_from_db()
    assert link.revoked_at is None


def test_the_audit_hides_private_runs_of_others(run: Run, people: People, who: Visitors) -> None:
    (link,) = shared(run, people)
    Run.objects.filter(pk=run.pk).update(visibility="private")
    assert link.trajectory.slug in who.owner.get(f"/team/{people.team.slug}").content.decode()
    assert link.trajectory.slug not in who.viewer.get(f"/team/{people.team.slug}").content.decode()


def test_public_runs_are_listed_and_can_be_closed(run: Run, people: People, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(visibility="link")
    page = who.owner.get(f"/team/{people.team.slug}").content.decode()
    assert f'href="/runs/{run.slug}/"' in page
    back = who.owner.post(
        f"/runs/{run.slug}/visibility", {"visibility": "team", "next": f"/team/{people.team.slug}#shares"}
    )
    assert back["Location"] == f"/team/{people.team.slug}#shares"
    assert f'href="/runs/{run.slug}/"' not in who.owner.get(f"/team/{people.team.slug}").content.decode()


@pytest.mark.parametrize("count", [1, 4])
def test_the_query_count_of_the_team_page_is_constant(
    count: int, run: Run, people: People, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    shared(run, people, count)
    for number in range(count):
        add_member(people, f"member{number}")
        do_invite(people.team, people.owner, MEMBER)
        do_revoke_invitation(do_invite(people.team, people.owner, MEMBER), people.owner)
    with django_assert_max_num_queries(11):
        assert who.owner.get(f"/team/{people.team.slug}").status_code == 200


def test_a_single_team_opens_directly_and_several_are_listed(people: People, who: Visitors) -> None:
    assert who.viewer.get("/team")["Location"] == f"/team/{people.team.slug}"
    assert who.viewer.get("/team?all=1").status_code == 200
    do_create_team("Second", people.viewer)
    page = who.viewer.get("/team").content.decode()
    assert "Second" in page
    assert "Agents" in page
    assert who.anonymous.get("/team")["Location"].startswith("/login")


def test_only_users_who_may_launch_create_teams(people: People, who: Visitors) -> None:
    made = who.outsider.post("/team/new", {"name": "New ideas"}, follow=True)
    team = Team.objects.get(name="New ideas")
    assert made.redirect_chain[-1][0] == f"/team/{team.slug}"
    assert team.memberships.get().role == ADMIN
    assert who.viewer.post("/team/new", {"name": "Free machines"}).status_code == 403
    assert who.anonymous.post("/team/new")["Location"].startswith("/login")
    assert not Team.objects.filter(name="Free machines").exists()


def test_the_menu_links_to_the_teams_of_the_user(people: People, who: Visitors) -> None:
    page = who.viewer.get("/environments").content.decode()
    assert f'href="/team/{people.team.slug}"' in page
    assert 'href="/account"' in page
    assert "/admin/" not in page
