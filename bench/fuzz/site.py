"""A site with two teams, one object of every kind, and canaries: texts that only members of their team may see."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.webapp.conftest import People
    from tests.webapp.full_site_fixture import FullSite
    from webapp.teams.models import User


@dataclass(frozen=True)
class Site:
    """Facts about the built site, for all processes that send requests to it.

    Attributes:
        known: arguments of URLs, "<argument> of <name>" or "<argument>", as in the permission tests.
        secret: the same kinds of arguments for objects that no share link shows.
        cookies: session of each visitor, empty for the anonymous visitor.
        tokens: API token of each caller.
        canary: the first team's canary.
        outside: visitors and callers who must never see it.
    """

    known: dict[str, Any]
    secret: dict[str, Any]
    cookies: dict[str, str]
    tokens: dict[str, str]
    canary: str
    outside: tuple[str, ...]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Site:
        return cls(**json.loads(path.read_text()))


def build() -> Site:
    """Fill an empty database. Django must be set up."""
    from django.conf import settings

    from tests.webapp.conftest import People, create_run
    from tests.webapp.full_site_fixture import create_full_site
    from webapp.core.publisher import publisher
    from webapp.runs.models import Run
    from webapp.teams.actions import do_create_team, do_create_token, do_create_user, do_set_role
    from webapp.teams.models import Membership

    canary = f"canary{secrets.token_hex(6)}"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    owner, viewer, outsider = (do_create_user(name, "a long secret") for name in ("ada", "grace", "mallory"))
    team = do_create_team("Agents", owner)
    do_set_role(team, viewer, Membership.Role.VIEWER)
    elsewhere = do_create_team("Elsewhere", outsider)
    people = People(team, owner, viewer, outsider)
    full = create_full_site(people, create_run(people))
    Run.objects.filter(pk=full.run.pk).update(visibility=Run.Visibility.LINK)
    secret = _create_secrets(people, full, canary)
    tokens = {
        "member's token": do_create_token(team, full.member, canary, ["read", "write"])[1],
        "read-only token": do_create_token(team, viewer, "reads", ["read"])[1],
        "token of another team": do_create_token(elsewhere, outsider, "foreign", ["read", "write"])[1],
    }
    publisher().flush()
    return Site(
        known=full.known,
        secret=secret,
        cookies=_log_in({"admin": owner, "member": full.member, "viewer": viewer, "outsider": outsider}),
        tokens=tokens,
        canary=canary,
        outside=("anonymous", "outsider", "token of another team"),
    )


def _create_secrets(people: People, full: FullSite, canary: str) -> dict[str, Any]:
    """Create objects that contain the canary and that no share link shows. Returns their arguments of URLs."""
    from tests.webapp.conftest import create_run
    from tests.webapp.page_requests import play
    from webapp.annotations.actions import do_comment, do_tag
    from webapp.notifications.models import Rule
    from webapp.notifications.rule_actions import do_create_rule
    from webapp.runs.models import Run
    from webapp.trajectories.models import Trajectory

    hidden = play(create_run(people, f"Plan {canary}"), finished=1)
    Run.objects.filter(pk=hidden.pk).update(tags=[canary], failure=f"Failed: {canary}", log_tail=canary)
    trajectory = Trajectory.objects.filter(run=hidden).order_by("-turn_count", "pk")[0]
    comment = do_comment(trajectory, people.owner, f"We keep {canary} among us.", 0)
    do_tag(trajectory, people.owner, canary)
    rule = do_create_rule(
        people.team,
        people.owner,
        name=canary,
        events=[Rule.Event.FAILED],
        channel=Rule.Channel.EMAIL,
        addresses=[f"{canary}@example.org"],
    )
    secret = dict(full.known)
    for name, value in full.known.items():
        if value == full.run.slug:
            secret[name] = hidden.slug
        elif value == full.trajectory.slug:
            secret[name] = trajectory.slug
        elif name.endswith(("comment-edit", "comment-delete")):
            secret[name] = comment.slug
        elif name.startswith("slug of alert") or name.startswith("slug of delivery"):
            secret[name] = rule.slug
    secret["key"] = trajectory.key
    secret["? of compare"] = f"runs={hidden.slug}"
    secret["? of compare-curves-data"] = f"runs={hidden.slug}&names=reward/mean"
    return secret


def _log_in(users: Mapping[str, User]) -> dict[str, str]:
    """Return a session cookie for each visitor, empty for the anonymous one."""
    from django.conf import settings
    from django.test import Client

    cookies = {"anonymous": ""}
    for name, user in users.items():
        client = Client()
        client.force_login(user)
        cookies[name] = client.cookies[settings.SESSION_COOKIE_NAME].value
    return cookies
