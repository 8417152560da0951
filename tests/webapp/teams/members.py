"""A member who may write but not manage, and their browser."""

from __future__ import annotations

from django.test import Client

from tests.webapp.conftest import People
from webapp.teams.actions import do_create_user, do_set_role
from webapp.teams.models import Membership, User


def add_member(people: People, name: str = "linus", role: Membership.Role = Membership.Role.MEMBER) -> User:
    """A new member of the team."""
    user = do_create_user(name, "a long secret")
    do_set_role(people.team, user, role)
    return user


def browser_of(user: User) -> Client:
    """A logged-in client."""
    client = Client()
    client.force_login(user)
    return client
