"""API tokens: storage, expiry and revocation."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, assert_private, who
from tests.webapp.teams.members import add_member, browser_of
from webapp.teams.actions import do_create_token, do_remove_member, do_revoke_token
from webapp.teams.api_tokens import MARK, PREFIX_LENGTH, find_token
from webapp.teams.models import ApiToken

__all__ = ["who"]


def test_the_secret_is_not_stored_and_finds_its_token(people: People) -> None:
    token, secret = do_create_token(people.team, people.owner, " CI ", ["write", "read"])
    assert secret.startswith(MARK)
    assert (token.name, token.scopes, token.prefix) == ("CI", ["read", "write"], secret[:PREFIX_LENGTH])
    kept = ApiToken.objects.filter(pk=token.pk).values().get()
    assert all(secret[PREFIX_LENGTH:] not in str(value) for value in kept.values())
    found = find_token(secret)
    assert found == token
    assert (found.team, found.user) == (people.team, people.owner)


@pytest.mark.parametrize("wrong", ["", "es_", "nothing", "es_ünsinn", "es_" + "a" * 24])
def test_an_invalid_secret_finds_nothing(wrong: str, people: People) -> None:
    do_create_token(people.team, people.owner, "CI", ["read"])
    assert find_token(wrong) is None


def test_a_matching_prefix_is_not_enough(people: People) -> None:
    first, secret = do_create_token(people.team, people.owner, "one", ["read"])
    second, other = do_create_token(people.team, people.owner, "two", ["read"])
    ApiToken.objects.filter(pk=second.pk).update(prefix=first.prefix)
    assert find_token(secret) == first
    assert find_token(secret[:-1] + ("x" if secret[-1] != "x" else "y")) is None
    assert find_token(other) is None, "its beginning was changed"


def test_a_token_ends_on_expiry_revocation_or_departure_of_its_owner(people: People) -> None:
    user = add_member(people)
    soon = timezone.now() + timedelta(minutes=1)
    token, secret = do_create_token(people.team, user, "CI", ["read"], expires_at=soon)
    assert find_token(secret) is not None
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert find_token(secret) is None
    ApiToken.objects.update(expires_at=None)
    user.is_active = False
    user.save()
    assert find_token(secret) is None
    user.is_active = True
    user.save()
    assert find_token(secret) is not None
    do_remove_member(people.team, user)
    assert find_token(secret) is None
    token.refresh_from_db()
    assert token.revoked_at is not None, "coming back to the team does not bring it back"


def test_revoking_twice_keeps_the_first_time(people: People) -> None:
    token, secret = do_create_token(people.team, people.owner, "CI", ["read"])
    do_revoke_token(token)
    first = token.revoked_at
    do_revoke_token(token)
    assert token.revoked_at == first
    assert find_token(secret) is None


def test_last_use_is_recorded_once_a_minute(people: People) -> None:
    token, secret = do_create_token(people.team, people.owner, "CI", ["read"])
    assert token.last_used_at is None
    first = find_token(secret)
    assert first is not None
    assert first.last_used_at is not None
    again = find_token(secret)
    assert again is not None
    assert again.last_used_at == first.last_used_at
    long_ago = timezone.now() - timedelta(minutes=2)
    ApiToken.objects.update(last_used_at=long_ago)
    later = find_token(secret)
    assert later is not None
    assert later.last_used_at is not None
    assert later.last_used_at > long_ago


def test_a_token_without_a_scope_is_refused(people: People) -> None:
    with pytest.raises(ValueError, match="read, write"):
        do_create_token(people.team, people.owner, "CI", ["admin"])


def test_the_page_shows_the_secret_once(people: People, who: Visitors) -> None:
    address = f"/team/{people.team.slug}/tokens"
    made = who.owner.post(address, {"name": "Nightly", "scopes": ["read", "write"], "lasts": "30"})
    token = ApiToken.objects.get()
    page = made.content.decode()
    secret = page.split('value="es_')[1].split('"')[0]
    assert find_token(f"es_{secret}") == token
    assert token.expires_at is not None
    assert timedelta(days=29) < token.expires_at - timezone.now() <= timedelta(days=30)
    assert "no-store" in made["Cache-Control"]
    later = who.owner.get(f"/team/{people.team.slug}").content.decode()
    assert "Nightly" in later
    assert token.prefix in later
    assert secret not in later


def test_viewers_create_read_tokens_only(people: People, who: Visitors) -> None:
    address = f"/team/{people.team.slug}/tokens"
    assert_private(address, who, post=True)
    assert who.viewer.post(address, {"name": "look", "scopes": ["read"], "lasts": ""}).status_code == 200
    assert ApiToken.objects.get().scopes == ["read"]
    assert who.viewer.post(address, {"name": "act", "scopes": ["read", "write"]}).status_code == 403
    assert ApiToken.objects.count() == 1


def test_an_incomplete_token_form_is_explained(people: People, who: Visitors) -> None:
    page = who.owner.post(f"/team/{people.team.slug}/tokens", {"name": "CI"}, follow=True).content.decode()
    assert "Choose what the token may do" in page
    assert not ApiToken.objects.exists()


def test_tokens_are_revoked_by_their_owner_and_by_admins(people: People, who: Visitors) -> None:
    member = add_member(people)
    mine, _ = do_create_token(people.team, member, "mine", ["read"])
    theirs, _ = do_create_token(people.team, people.owner, "theirs", ["read"])
    client = browser_of(member)
    address = f"/team/{people.team.slug}/tokens/{{}}/revoke"
    assert_private(address.format(mine.prefix), who, post=True)
    assert who.viewer.post(address.format(mine.prefix)).status_code == 404
    assert client.post(address.format(theirs.prefix)).status_code == 404
    assert theirs.prefix not in client.get(f"/team/{people.team.slug}").content.decode()
    assert mine.prefix in who.owner.get(f"/team/{people.team.slug}").content.decode()
    assert client.post(address.format(mine.prefix), {"next": "account"})["Location"] == "/account"
    who.owner.post(address.format(theirs.prefix))
    assert not ApiToken.objects.filter(revoked_at=None).exists()
    assert mine.prefix not in client.get("/account").content.decode()
