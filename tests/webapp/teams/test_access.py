"""Access rules for an owner, a viewer, an outsider and an anonymous user."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from pytest_django import DjangoAssertNumQueries

from tests.webapp.conftest import People
from webapp.teams import access
from webapp.teams.actions import do_set_role
from webapp.teams.models import Membership


def test_roles_apply_to_their_own_team_only(people: People) -> None:
    team = people.team.pk
    assert access.may_write(people.owner, team)
    assert access.role_in(people.viewer, team) == Membership.Role.VIEWER
    assert access.role_in(people.outsider, team) is None
    assert access.role_in(AnonymousUser(), team) is None


def test_only_members_may_write(people: People) -> None:
    team = people.team.pk
    access.require_writer(people.owner, team)
    for user in (people.viewer, people.outsider, AnonymousUser()):
        assert not access.may_write(user, team)
        with pytest.raises(PermissionDenied, match="Ask an admin of the team"):
            access.require_writer(user, team)
    do_set_role(people.team, people.viewer, Membership.Role.MEMBER)
    access.require_writer(people.viewer, team)


def test_runs_can_be_launched_in_writable_teams(people: People) -> None:
    assert access.writable_teams(people.owner) == [people.team]
    assert access.writable_teams(people.viewer) == []
    assert people.team not in access.writable_teams(people.outsider)
    assert access.writable_teams(AnonymousUser()) == []


def test_a_page_queries_memberships_once_and_a_socket_each_time(
    people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    team = people.team.pk
    with django_assert_num_queries(1):
        assert access.role_in_team(people.viewer, team) == Membership.Role.VIEWER
        assert access.writable_teams(people.viewer) == []
        assert access.role_in_team(people.viewer, team + 1) is None
    assert access.role_in_team(AnonymousUser(), team) is None
    do_set_role(people.team, people.viewer, Membership.Role.MEMBER)
    assert access.role_in(people.viewer, team) == Membership.Role.MEMBER
