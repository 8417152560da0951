"""A team with at least one object of every kind, for tests that visit all URLs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.observed_images import observe
from tests.webapp.page_requests import play
from webapp.annotations.actions import do_comment, do_star, do_tag
from webapp.branching.models import BranchQuestion, EvaluationQuestion
from webapp.explorer.watching import do_watch
from webapp.notifications.models import AlertAddress, Notification, Rule
from webapp.notifications.rule_actions import do_create_rule, do_test_rule
from webapp.reports.actions import do_create_report
from webapp.runs.models import Evaluation, Run, StoredModel, Worker
from webapp.saved_views.actions import do_save_view
from webapp.saved_views.models import SavedView
from webapp.studies.actions import do_create_study
from webapp.studies.study_plan import planned
from webapp.studies.study_spec import CatalogueSpec
from webapp.teams.actions import do_create_token, do_create_user, do_invite, do_revoke_token, do_set_role
from webapp.teams.models import Membership, User
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Group, Trajectory


@dataclass(frozen=True)
class FullSite:
    """Existing objects, and their URL arguments."""

    people: People
    member: User
    run: Run
    trajectory: Trajectory
    known: dict[str, Any]

    def visitors(self) -> list[tuple[str, Client]]:
        """In the order of `addresses.EXPECTED`."""
        people = (self.people.owner, self.member, self.people.viewer, self.people.outsider)
        clients = []
        for user in people:
            client = Client()
            client.force_login(user)
            clients.append(client)
        return list(zip(("owner", "member", "viewer", "outsider", "anonymous"), [*clients, Client()], strict=True))

    def path(self, name: str, arguments: frozenset[str], query: str = "") -> str:
        """The URL with existing values, looked up as "<argument> of <name>", else as "<argument>"."""
        values = {argument: self.known.get(f"{argument} of {name}", self.known.get(argument)) for argument in arguments}
        assert None not in values.values(), f"{name}: the test knows no value for {values}"
        parameters_string = self.known.get(f"? of {name}", query)
        return reverse(name, kwargs=values) + (f"?{parameters_string}" if parameters_string else "")


def _evaluate(trajectory: Trajectory) -> None:
    """Add an evaluation in which the run solved the puzzle of this trajectory, for the wall of its puzzles."""
    run, split = trajectory.run, {"split": "eval", "iteration": 2}
    group = Group.objects.get(pk=trajectory.group_id)
    attempt = Trajectory.objects.get(pk=trajectory.pk)
    for copied, changes in (
        (group, {"suite": run.environment}),
        (attempt, {"group": group, "slug": "solved-here-1", "key": "e00002-p000", "status": Trajectory.Status.SUCCESS}),
    ):
        for name, value in {"pk": None, **split, **changes}.items():
            setattr(copied, name, value)
        copied.save(force_insert=True)
    shares = {"success": 1.0, "success_low": 0.2, "success_high": 1.0}
    Evaluation.objects.create(run=run, suite=run.environment, iteration=2, prompts=1, time=timezone.now(), **shares)


def create_full_site(people: People, run: Run) -> FullSite:
    """The run was played for two iterations; its longest trajectory is shared, starred, tagged and commented."""
    member = do_create_user("linus", "a long secret", email="linus@example.org")
    do_set_role(people.team, member, Membership.Role.MEMBER)
    do_set_role(people.team, do_create_user("barbara", "a long secret"), Membership.Role.VIEWER)
    play(run, finished=2)
    trajectory, other = Trajectory.objects.filter(run=run, group__number=0).order_by("-turn_count", "pk")[:2]
    link = do_share_trajectory(trajectory, people.owner)
    image = observe(trajectory)
    do_star(trajectory, people.owner)
    do_tag(trajectory, people.owner, "odd")
    comment = do_comment(trajectory, people.owner, "It walks in circles here, does it not, @ada?", 0)
    do_comment(trajectory, member, "@ada have a look at this push")
    invitation = do_invite(people.team, people.owner, Membership.Role.VIEWER, "new@example.org")
    token, _ = do_create_token(people.team, people.owner, "script", ["read"])
    checkpoint = run.folder / "checkpoints/000002"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "state.json").write_text("{}")
    rule = do_create_rule(
        people.team,
        people.owner,
        name="Tell us",
        events=[Rule.Event.FAILED],
        channel=Rule.Channel.EMAIL,
        addresses=["team@example.org"],
    )
    address = AlertAddress.objects.create(team=people.team, email="team@example.org")
    delivery = do_test_rule(rule)
    now = timezone.now()
    _evaluate(other)
    Worker.objects.create(name="worker@here", started_at=now, last_seen_at=now, model_store="store")
    StoredModel.objects.create(
        name="smollm2-135m", store="store", state=StoredModel.State.INSTALLED, requested_by=people.owner
    )
    known: dict[str, Any] = {
        "slug": run.slug,
        "name": "Bandit",
        "key": trajectory.key,
        "action": "pause",
        "kind": "json",
        "turn": 1,
    }
    of_trajectory = (
        "trajectory",
        "policy-input",
        "trajectory-data",
        "trajectory-tokens",
        "trajectory-token-page",
        "trajectory-reading",
        "trajectory-token-computation",
        "trajectory-tokens-compute",
        "trajectory-tokens-cancel",
        "branches",
        "branch-ask",
        "branch-delete",
        "trajectory-picture",
        "trajectory-board",
        "trajectory-image",
        "trajectory-export",
        "share",
        "revoke",
        "annotations",
        "star",
        "tag",
        "untag",
        "comment",
        "prompt",
        "film",
        "thoughts",
        "trajectory-embed",
        "film-preview",
        "film-ask",
        "film-progress",
    )
    known |= {"name of model-download": "qwen2.5-0.5b"}
    known |= dict.fromkeys(("name of model-cancel", "name of model-delete"), "smollm2-135m")
    known["name of open-recording"] = "bandit-smollm2"
    known |= {f"slug of {name}": trajectory.slug for name in of_trajectory}
    known |= {
        "kind of film": "png",
        "kind of run-evaluation-wall": "gif",
        "other": other.slug,
        "kind of run-export": "jsonl",
        "token": link.token,
    }
    known["sha256"] = image.sha256
    question = BranchQuestion.objects.create(
        trajectory=trajectory, kind="branch", turn=0, samples=4, total=4, requested_by=people.owner, requested_at=now
    )
    known["question"] = question.slug
    about_evaluation = EvaluationQuestion.objects.create(
        run=run, kind="corrections", suite=run.environment, iteration=2, samples=4, most_attempts=9, requested_at=now
    )
    of_evaluation = ("evaluation-answer", "evaluation-question-delete")
    known |= {f"question of {name}": about_evaluation.slug for name in of_evaluation}
    of_team = (
        "team",
        "team-audit",
        "team-audit-export",
        "team-settings",
        "member-role",
        "member-remove",
        "invite",
        "invitation-revoke",
        "token-create",
        "token-revoke",
        "team-share-revoke",
    )
    known |= {f"slug of {name}": people.team.slug for name in of_team}
    known |= {"username": "barbara", "prefix": token.prefix}
    known |= {"token of invitation": invitation.token, "token of invitation-revoke": invitation.token}
    of_rule = (
        "alert",
        "alert-edit",
        "alert-test",
        "alert-switch",
        "alert-secret",
        "alert-former-secrets",
        "alert-delete",
        "delivery",
        "delivery-again",
    )
    known |= {f"slug of {name}": rule.slug for name in of_rule} | {"delivery_slug": delivery.slug}
    body = f"What **broke**?\n\n/t/{trajectory.slug}\n\n/runs/{run.slug}/evaluation\n\n/runs/{run.slug}/curves\n"
    report = do_create_report(people.team, people.owner, "Where it broke", body, frozenset())
    of_report = ("", "-edit", "-delete", "-history", "-revision", "-restore")
    known |= {f"slug of report{name}": report.slug for name in of_report} | {"number": 1}
    spec = CatalogueSpec(study="figure-9", scale="smoke", seeds=1)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    known |= {f"slug of study{name}": study.slug for name in ("", "-export", "-visibility", "-request")}
    known |= {"kind of study-export": "markdown", "action of study-request": "pause"}
    known["token of alert-address"] = address.token
    known |= {"slug of comment-edit": comment.slug, "slug of comment-delete": comment.slug}
    known["slug of mention"] = Notification.objects.get(user=people.owner, comment__author=member).slug
    notification = Notification.objects.create(
        user=people.owner, run=run, kind="finished", key="end", title="Run finished", path="/"
    )
    known["slug of inbox-open"] = notification.slug
    known |= {"user_id": people.owner.pk, "token of welcome": "wrong", "uidb36": "x", "rest": "nothing"}
    known |= {"key of account_reset_password_from_key": "y", "key of account_confirm_email": "z"}
    known["provider_id"], known["iteration"] = "none", 2
    known["? of compare"], known["? of compare-curves-data"] = f"runs={run.slug}", f"runs={run.slug}&names=reward/mean"
    known["? of oembed"] = f"url=http://testserver/s/{link.token}"
    view = do_save_view(people.owner, SavedView.List.TRAJECTORIES, "In corners", "reason=box_corner", people.team)
    do_watch(view, 0.5)
    known |= {"pk": view.pk, "ref": view.pk, "trajectory": trajectory.slug}
    for kind, data in (
        ("totp", {"secret": "JBSWY3DPEHPK3PXP"}),
        ("recovery_codes", {"seed": "1" * 40, "used_mask": 0}),
    ):
        Authenticator.objects.create(user=people.owner, type=kind, data=data)
    session = UserSession.objects.create(user=people.owner, ip="192.0.2.1", session_key="of another browser")
    known["pk of session-end"] = session.pk
    known |= {"kind of team-audit-export": "csv", "kind of site-audit-export": "jsonl"}
    revoked, _ = do_create_token(people.team, member, "nightly", ["read"])
    removal = do_revoke_token(revoked, people.owner)
    assert removal is not None
    known["slug of undo"] = removal.slug
    return FullSite(people, member, run, trajectory, known)
