"""A site with two teams, one object of every kind, and canaries: texts that only members of their team may see."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


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
    from django.test import Client

    from tests.webapp.conftest import People
    from tests.webapp.full_site_fixture import create_full_site
    from tests.webapp.page_requests import play
    from trainer.config.run import RunConfig
    from webapp.annotations.actions import do_comment, do_tag
    from webapp.core.publisher import publisher
    from webapp.notifications.models import Rule
    from webapp.notifications.rule_actions import do_create_rule
    from webapp.runs.models import Run
    from webapp.teams.actions import do_create_team, do_create_token, do_create_user, do_set_role
    from webapp.teams.models import Membership
    from webapp.trajectories.models import Trajectory

    canary = f"canary{secrets.token_hex(6)}"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    owner, viewer, outsider = (do_create_user(name, "a long secret") for name in ("ada", "grace", "mallory"))
    team = do_create_team("Agents", owner)
    do_set_role(team, viewer, Membership.Role.VIEWER)
    elsewhere = do_create_team("Elsewhere", outsider)

    def create_run(title: str) -> Run:
        config = RunConfig(iterations=4)
        config.rollout.groups, config.rollout.group_size = 2, 2
        return Run.objects.create(
            team=team,
            author=owner,
            title=title,
            config=config.model_dump(mode="json"),
            environment="Sokoban",
            iterations=4,
        )

    full = create_full_site(People(team, owner, viewer, outsider), create_run("Trial"))
    Run.objects.filter(pk=full.run.pk).update(visibility=Run.Visibility.LINK)
    hidden = play(create_run(f"Plan {canary}"), finished=1)
    Run.objects.filter(pk=hidden.pk).update(tags=[canary], failure=f"Failed: {canary}", log_tail=canary)
    trajectory = Trajectory.objects.filter(run=hidden).order_by("-turn_count", "pk")[0]
    comment = do_comment(trajectory, owner, f"We keep {canary} among us.", 0)
    do_tag(trajectory, owner, canary)
    rule = do_create_rule(
        team,
        owner,
        name=canary,
        events=[Rule.Event.FAILED],
        channel=Rule.Channel.EMAIL,
        addresses=[f"{canary}@example.org"],
    )
    tokens = {
        "member's token": do_create_token(team, full.member, canary, ["read", "write"])[1],
        "read-only token": do_create_token(team, viewer, "reads", ["read"])[1],
        "token of another team": do_create_token(elsewhere, outsider, "foreign", ["read", "write"])[1],
    }
    cookies = {"anonymous": ""}
    for name, user in (("admin", owner), ("member", full.member), ("viewer", viewer), ("outsider", outsider)):
        client = Client()
        client.force_login(user)
        cookies[name] = client.cookies[settings.SESSION_COOKIE_NAME].value
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
    publisher().flush()
    return Site(
        known=full.known,
        secret=secret,
        cookies=cookies,
        tokens=tokens,
        canary=canary,
        outside=("anonymous", "outsider", "token of another team"),
    )
