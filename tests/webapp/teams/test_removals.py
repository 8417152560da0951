"""What is removed or revoked takes effect at once, comes back exactly by an undo, and is final afterwards."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, play, who
from tests.webapp.teams.members import add_member, browser_of
from webapp.annotations.actions import do_comment
from webapp.annotations.models import Comment
from webapp.core.soft_delete import UNDO_TIME, do_purge
from webapp.notifications.models import Delivery, Notification, Rule
from webapp.notifications.rule_actions import (
    do_create_rule,
    do_delete_rule,
    do_switch_off_ownerless_rules,
    do_test_rule,
)
from webapp.runs.models import Run
from webapp.saved_views.actions import do_save_view
from webapp.saved_views.models import SavedView
from webapp.teams.actions import (
    do_accept_invitation,
    do_create_token,
    do_invite,
    do_remove_member,
    do_revoke_invitation,
    do_revoke_token,
    do_set_role,
)
from webapp.teams.api_tokens import find_token
from webapp.teams.invitations import open_invitation
from webapp.teams.models import ApiToken, Invitation, Membership, Removal, Team, User
from webapp.teams.removals import UndoRefused, do_undo, get_removal
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.sharing.share_links import find_link

__all__ = ["who"]


def undo(client: Client, slug: str = "") -> str:
    """Press Undo of the newest removal; the words of the next page's notice."""
    slug = slug or Removal.objects.first().slug  # type: ignore[union-attr]
    response = client.post(reverse("undo", args=[slug]), {"next": "/team"}, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])


def age(removal: Removal) -> None:
    """Let the time for undoing pass."""
    Removal.objects.filter(pk=removal.pk).update(created_at=timezone.now() - UNDO_TIME, until=timezone.now())


def test_a_revoked_token_fails_at_once_and_an_undo_brings_back_the_same_one(people: People, who: Visitors) -> None:
    token, secret = do_create_token(people.team, people.owner, "CI", ["read", "write"])
    row = ApiToken.objects.filter(pk=token.pk).values().get()
    bearer = {"Authorization": f"Bearer {secret}"}
    assert Client().get("/api/me", headers=bearer).status_code == 200
    row["last_used_at"] = ApiToken.objects.get(pk=token.pk).last_used_at
    page = who.owner.post(reverse("token-revoke", args=[people.team.slug, token.prefix]), follow=True)
    assert Client().get("/api/me", headers=bearer).status_code == 401
    removal = Removal.objects.get()
    notice = page.content.decode()
    assert "You can undo this for 10 minutes." in notice
    assert reverse("undo", args=[removal.slug]) in notice
    assert undo(who.owner) == "Undone. Back as it was: the token “CI”."
    assert Client().get("/api/me", headers=bearer).status_code == 200
    assert ApiToken.objects.filter(pk=token.pk).values().get() == row
    removal.refresh_from_db()
    assert (removal.author, removal.undone_by) == (people.owner, people.owner)
    assert "undone already" in undo(who.owner)


def test_an_undo_that_comes_too_late_is_refused_and_the_token_stays_revoked(people: People, who: Visitors) -> None:
    token, secret = do_create_token(people.team, people.owner, "CI", ["read"])
    removal = do_revoke_token(token, people.owner)
    assert removal is not None
    age(removal)
    assert undo(who.owner) == "It is too late: this could be undone for 10 minutes. Create it again."
    assert find_token(secret) is None


def test_another_team_and_members_who_may_not_revoke_it_cannot_undo(people: People, who: Visitors) -> None:
    member = add_member(people)
    token, secret = do_create_token(people.team, member, "CI", ["read"])
    by_admin = do_revoke_token(token, people.owner)
    assert by_admin is not None
    address = reverse("undo", args=[by_admin.slug])
    assert who.outsider.post(address).status_code == 404
    assert who.viewer.post(address).status_code == 403
    assert browser_of(member).post(address).status_code == 403, "an admin revoked it: its owner does not revive it"
    assert who.anonymous.post(address).headers["Location"].startswith("/login")
    assert who.owner.get(address).status_code == 405
    assert find_token(secret) is None
    do_undo(by_admin, people.owner)
    by_owner = do_revoke_token(token, member)
    assert by_owner is not None
    with pytest.raises(PermissionDenied):
        get_removal(people.owner, by_owner.slug)
    assert "Undone" in undo(browser_of(member), by_owner.slug)
    assert find_token(secret) == token
    again = do_revoke_token(token, member)
    assert again is not None
    do_remove_member(people.team, member, people.owner)
    with pytest.raises(UndoRefused, match="no longer in the team"):
        do_undo(again, member)
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_a_removed_member_comes_back_with_role_tokens_and_invitations(people: People, who: Visitors) -> None:
    admin = add_member(people, "hopper", Membership.Role.ADMIN)
    invitation = do_invite(people.team, admin, Membership.Role.VIEWER)
    token, secret = do_create_token(people.team, admin, "CI", ["read"])
    before, _ = do_create_token(people.team, admin, "old", ["read"])
    do_revoke_token(before, admin)
    rule = do_create_rule(people.team, admin, name="Failures", events=[Rule.Event.FAILED], channel=Rule.Channel.INBOX)
    row = Membership.objects.filter(user=admin).values("team", "user", "role", "created_at").get()
    who.owner.post(reverse("member-remove", args=[people.team.slug, "hopper"]))
    removal = Removal.objects.latest("pk")
    do_switch_off_ownerless_rules(timezone.now())
    assert not Membership.objects.filter(user=admin).exists()
    assert find_token(secret) is None
    assert open_invitation(invitation.token) is None
    assert browser_of(admin).post(reverse("undo", args=[removal.slug])).status_code == 404, "not by themselves"
    assert undo(who.owner, removal.slug).endswith("Undone. Back as it was: hopper as admin.")
    assert Membership.objects.filter(user=admin).values("team", "user", "role", "created_at").get() == row
    assert find_token(secret) == token
    assert open_invitation(invitation.token) == invitation
    before.refresh_from_db()
    assert before.revoked_at is not None, "it was revoked before"
    rule.refresh_from_db()
    assert (rule.enabled, rule.disabled_reason) == (True, "")


def test_who_left_comes_back_by_themselves_but_not_around_a_later_removal(people: People) -> None:
    member = add_member(people)
    browser = browser_of(member)
    browser.post(reverse("member-remove", args=[people.team.slug, "linus"]))
    left = Removal.objects.get()
    with pytest.raises(Http404):
        get_removal(people.outsider, left.slug)
    assert "linus as member" in undo(browser)
    do_remove_member(people.team, member, member)
    left_again = Removal.objects.first()
    assert left_again is not None
    do_set_role(people.team, member, Membership.Role.VIEWER)
    assert "in the team again already" in undo(browser, left_again.slug)
    do_remove_member(people.team, member, people.owner)
    assert "removed once more" in undo(browser, left_again.slug)
    assert not Membership.objects.filter(user=member).exists()


def test_an_invitation_comes_back_only_while_its_author_is_an_admin(people: People, who: Visitors) -> None:
    admin = add_member(people, "hopper", Membership.Role.ADMIN)
    invitation = do_invite(people.team, admin, Membership.Role.MEMBER)
    row = Invitation.objects.filter(pk=invitation.pk).values().get()
    who.owner.post(reverse("invitation-revoke", args=[people.team.slug, invitation.token]))
    assert open_invitation(invitation.token) is None
    do_undo(Removal.objects.latest("pk"), people.owner)
    assert Invitation.objects.filter(pk=invitation.pk).values().get() == row
    do_accept_invitation(invitation, people.outsider)
    assert do_revoke_invitation(invitation, people.owner) is None, "an accepted one is not revoked"
    other = do_invite(people.team, admin, Membership.Role.MEMBER)
    do_revoke_invitation(other, people.owner)
    do_set_role(people.team, admin, Membership.Role.MEMBER)
    assert "no longer an admin" in undo(who.owner)
    assert open_invitation(other.token) is None


@pytest.fixture
def trajectory(run: Run) -> Trajectory:
    play(run)
    return Trajectory.objects.filter(run=run).order_by("-turn_count", "pk")[0]


def test_revoked_share_links_stop_at_once_and_come_back(trajectory: Trajectory, people: People, who: Visitors) -> None:
    links = [do_share_trajectory(trajectory, people.owner), do_share_trajectory(trajectory, people.owner, turn=0)]
    rows = list(ShareLink.objects.order_by("pk").values())
    who.owner.post(reverse("run-shares-revoke", args=[trajectory.run.slug]))
    assert [Client().get(reverse("shared", args=[link.token])).status_code for link in links] == [404, 404]
    removal = Removal.objects.get()
    assert who.outsider.post(reverse("undo", args=[removal.slug])).status_code == 404
    assert "all share links" in undo(who.owner)
    assert list(ShareLink.objects.order_by("pk").values()) == rows
    who.owner.post(reverse("revoke", args=[trajectory.slug, links[0].token]))
    assert find_link(links[0].token) is None
    assert find_link(links[1].token) is not None
    assert "the share link" in undo(who.owner)
    assert find_link(links[0].token) == links[0]


def test_a_link_is_not_revived_by_a_member_who_lost_sight_of_the_run(trajectory: Trajectory, people: People) -> None:
    member = add_member(people)
    link = do_share_trajectory(trajectory, member)
    browser_of(member).post(reverse("revoke", args=[trajectory.slug, link.token]))
    Run.objects.filter(pk=trajectory.run_id).update(visibility=Run.Visibility.PRIVATE)
    assert browser_of(member).post(reverse("undo", args=[Removal.objects.get().slug])).status_code == 403
    assert find_link(link.token) is None


def test_a_deleted_comment_comes_back_with_its_mentions(trajectory: Trajectory, people: People, who: Visitors) -> None:
    comment = do_comment(trajectory, people.owner, f"look, @{people.viewer.username}", 0)
    notification = {"kind": "comment", "comment": comment, "key": "c", "title": "A comment", "path": "/"}
    Notification.objects.create(user=people.viewer, **notification)
    panel = reverse("annotations", args=[trajectory.slug])

    def seen() -> tuple[list[Comment], list[Notification], bool]:
        shown = "look, " in who.viewer.get(panel, headers={"HX-Request": "true"}).content.decode()
        return list(Comment.objects.all()), list(Notification.objects.of(people.viewer)), shown

    before = seen()
    assert all(before)
    page = who.owner.post(reverse("comment-delete", args=[comment.slug]), headers={"HX-Request": "true"})
    assert not any(seen())
    assert "Comment deleted. You can undo this for 10 minutes." in page.content.decode()
    assert "You can undo this" in who.owner.get(panel, headers={"HX-Request": "true"}).content.decode(), (
        "pages reload it"
    )
    assert "look" not in Removal.objects.get().name, "the record keeps no text"
    assert "Undone" in undo(who.owner)
    assert seen() == before


def test_a_deleted_alert_rule_sends_nothing_and_comes_back_with_its_log(people: People, who: Visitors) -> None:
    rule = do_create_rule(
        people.team, people.owner, name="CI", events=["failed"], channel="webhook", url="https://a.b/c"
    )
    do_test_rule(rule)
    rows = [list(table.objects.values()) for table in (Rule, Delivery)]
    who.owner.post(reverse("alert-delete", args=[rule.slug]))
    assert who.owner.get(reverse("alert", args=[rule.slug])).status_code == 404
    assert (Rule.objects.count(), Delivery.objects.due(timezone.now()).count()) == (0, 0)
    assert "the alert rule “CI”" in undo(who.owner)
    assert [list(table.objects.values()) for table in (Rule, Delivery)] == rows


def test_what_was_deleted_is_purged_when_it_is_final(people: People, who: Visitors) -> None:
    rule = do_create_rule(
        people.team, people.owner, name="CI", events=["failed"], channel="webhook", url="https://a.b/c"
    )
    removal = do_delete_rule(rule, people.owner)
    assert removal is not None
    assert do_purge(timezone.now()) == 0
    assert do_purge(timezone.now() + UNDO_TIME) == 1
    assert not Rule._base_manager.exists(), "with its secret"
    assert "no longer exists" in undo(who.owner, removal.slug)


def test_a_saved_view_comes_back_unless_its_name_is_taken(people: People, who: Visitors) -> None:
    view = do_save_view(people.owner, SavedView.List.RUNS, "Failures", "state=failed", None)
    row = SavedView.objects.values().get()
    who.owner.post(reverse("delete-view", args=[view.pk]))
    private = Removal.objects.get()
    assert private.team is None
    for other in (who.viewer, who.outsider):
        assert other.post(reverse("undo", args=[private.slug])).status_code == 404
    assert "Failures" in undo(who.owner)
    assert SavedView.objects.values().get() == row
    who.owner.post(reverse("delete-view", args=[view.pk]))
    do_save_view(people.owner, SavedView.List.RUNS, "Failures", "state=cancelled", None)
    assert "same name" in undo(who.owner)
    assert SavedView.objects.get().query == "state=cancelled"


def test_the_page_of_the_team_lists_removals_to_those_concerned(people: People, who: Visitors) -> None:
    token, _ = do_create_token(people.team, people.owner, "CI", ["read"])
    removal = do_revoke_token(token, people.owner)
    assert removal is not None
    address, button = reverse("team", args=[people.team.slug]), reverse("undo", args=[removal.slug])
    assert button in who.owner.get(address).content.decode()
    assert "The token “CI”" not in who.viewer.get(address).content.decode()
    age(removal)
    later = who.owner.get(address).content.decode()
    assert "The token “CI”" in later
    assert button not in later


def test_the_undo_returns_to_pages_of_this_site_only(people: People, who: Visitors) -> None:
    token, _ = do_create_token(people.team, people.owner, "CI", ["read"])
    removal = do_revoke_token(token, people.owner)
    assert removal is not None
    response = who.owner.post(reverse("undo", args=[removal.slug]), {"next": "//evil.example/"})
    assert response.headers["Location"] == reverse("runs")


def test_a_team_takes_its_removals_along(people: People) -> None:
    token, _ = do_create_token(people.team, people.owner, "CI", ["read"])
    do_revoke_token(token, people.owner)
    Team.objects.filter(pk=people.team.pk).delete()
    assert not Removal.objects.exists()
    assert User.objects.filter(pk=people.owner.pk).exists()
