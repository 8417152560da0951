"""Every URL that accepts POST leaves an entry in the audit log, or says here why not.

The operations of the API are tested in tests/webapp/api/test_audit_log.py.
"""

from __future__ import annotations

from copy import deepcopy

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from tests.webapp.addresses import ADDRESSES, patterns
from tests.webapp.conftest import People
from tests.webapp.full_site_fixture import FullSite, create_full_site
from tests.webapp.pages.runs.test_launch_views import fields_of
from webapp.branching.models import BranchQuestion
from webapp.runs.models import Checkpoint, Run, StoredModel
from webapp.teams.models import AuditEntry
from webapp.trajectories.models import TokenArrays, TokenComputation

ACCOUNT = "tests/webapp/teams/test_audit.py sends it as a person does"
SHOWS = "changes nothing: it checks or shows what was entered"
PRIVATE = "concerns only what the person themselves sees"
AUTHORED = "carries author and time where it is shown, and can be taken back"
DELIVERED = "is an entry of the log of deliveries, with its request"
NO_ENTRY = {
    **dict.fromkeys(("welcome", "login", "account_login", "mfa_authenticate", "mfa_login_webauthn"), ACCOUNT),
    **dict.fromkeys(("account_signup", "invitation", "account_change_password", "account_set_password"), ACCOUNT),
    **dict.fromkeys(("account_email", "account_confirm_email", "account_reset_password_from_key"), ACCOUNT),
    **dict.fromkeys(("mfa_activate_totp", "mfa_deactivate_totp", "mfa_generate_recovery_codes"), ACCOUNT),
    **dict.fromkeys(("mfa_add_webauthn", "mfa_edit_webauthn", "mfa_remove_webauthn"), ACCOUNT),
    **dict.fromkeys(("socialaccount_connections", "socialaccount_signup"), ACCOUNT),
    **dict.fromkeys(("openid_connect_login", "openid_connect_callback"), ACCOUNT),
    **dict.fromkeys(("account_reauthenticate", "mfa_reauthenticate", "mfa_reauthenticate_webauthn"), SHOWS),
    **dict.fromkeys(("account_reset_password", "mfa_download_recovery_codes"), SHOWS),
    **dict.fromkeys(("launch-check", "launch-yaml", "launch-exports", "report-preview", "study-check"), SHOWS),
    **dict.fromkeys(("api:openapi-json", "environment-play"), SHOWS),
    **dict.fromkeys(("save-view", "rename-view", "run-follow", "inbox-read", "inbox-settings"), PRIVATE),
    **dict.fromkeys(("star", "tag", "untag", "comment", "comment-edit", "label-attempt"), AUTHORED),
    **dict.fromkeys(("alert-test", "delivery-again"), DELIVERED),
    "csp-report": "is sent by browsers, about a page",
    "alert-address": "is decided by the owner of a mail address, who has no account; the address keeps it",
}
SENT = {
    "invite": {"role": "viewer"},
    "share": {"ends": "7"},
    "run-edit": {"title": "Renamed"},
    "alert-new": {"name": "Failures", "events": "failed", "scope": "all", "channel": "inbox"},
    "alert-edit": {"name": "All failures", "events": "failed", "scope": "all", "channel": "inbox"},
    "report-new": {"title": "What broke", "body": "Some *words*."},
    "report-edit": {"title": "Renamed", "body": "Better.", "version": "1"},
    "study-new": {"kind": "catalogue", "study": "figure-9", "scale": "smoke", "seeds": "1"},
}
"""Forms that differ from the forms of the permission tests."""
DOWNLOADS = ("run-export", "run-checkpoint", "run-model", "team-audit-export")


@pytest.fixture(scope="module")
def site(module_people: People, module_run: Run) -> FullSite:
    return create_full_site(module_people, module_run)


@pytest.fixture
def full_site(site: FullSite, db: None) -> FullSite:
    return deepcopy(site)


def prepare(name: str, site: FullSite, client: Client) -> dict[str, str]:
    """Bring the objects into the state in which the request can succeed. Returns its form."""
    if name in ("run-delete", "run-rebuild"):
        Run.objects.filter(pk=site.run.pk).update(state=Run.State.FINISHED)
    if name == "run-rewind":
        site.run.checkpoints.update_or_create(iteration=2, defaults={"bytes": 1, "time": timezone.now()})
        Run.objects.filter(pk=site.run.pk).update(iteration=3)
    if name == "model-cancel":
        StoredModel.objects.update(state=StoredModel.State.QUEUED)
    if name == "trajectory-tokens-compute":
        TokenArrays.objects.all().delete()
        Checkpoint.objects.get_or_create(run=site.run, iteration=1, defaults={"bytes": 0, "time": timezone.now()})
    if name == "trajectory-tokens-cancel":
        TokenComputation.objects.create(trajectory=site.trajectory, requested_at=timezone.now())
    if name in ("branch-ask", "evaluation-ask", "film-ask"):
        BranchQuestion.objects.all().delete()  # the same question again is no change
        Checkpoint.objects.get_or_create(run=site.run, iteration=1, defaults={"bytes": 0, "time": timezone.now()})
    if name == "report-restore":
        path = site.path("report-edit", frozenset({"slug"}))
        client.post(path, SENT["report-edit"])
    if name == "launch":
        return fields_of(client.get("/runs/new").content.decode())
    return {"run-delete": {"confirm": site.run.slug}}.get(name) or SENT.get(name) or ADDRESSES[name].data


def test_every_url_that_accepts_post_leaves_an_entry_or_a_reason(full_site: FullSite) -> None:
    client = full_site.visitors()[0][1]
    silent, needless = [], []
    for name, arguments in patterns():
        if name not in ADDRESSES:
            continue
        cookies, path = deepcopy(client.cookies), full_site.path(name, arguments)
        with transaction.atomic():
            form = {} if name in NO_ENTRY else prepare(name, full_site, client)
            before = AuditEntry.objects.count()
            response = client.post(path, form)
            added = AuditEntry.objects.count() - before
            transaction.set_rollback(True)
        client.cookies = cookies
        if response.status_code != 405 and not added and name not in NO_ENTRY:
            silent.append(f"{name}: {response.status_code}")
        if added and name in NO_ENTRY:
            needless.append(name)
    assert not silent, "neither an entry nor a reason"
    assert not needless, "these leave an entry, and need no reason"
    assert not NO_ENTRY.keys() - ADDRESSES.keys()


def test_downloads_of_whole_runs_leave_an_entry(full_site: FullSite) -> None:
    client = full_site.visitors()[0][1]
    for name, arguments in patterns():
        if name in DOWNLOADS:
            before = AuditEntry.objects.count()
            response = client.get(full_site.path(name, arguments))
            b"".join(response.streaming_content)  # type: ignore[arg-type]
            assert AuditEntry.objects.filter(action="exported").count(), name
            assert AuditEntry.objects.count() == before + 1, name
