"""Every URL of the site, with its permission rule. A URL that is missing here fails the permission tests.

Rules concern five visitors: the owner (an admin of the team, author of the run), a member, a viewer, a member of
another team, and an anonymous one. `EXPECTED` defines the result of each rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.urls import URLResolver, get_resolver

OK, LOGIN, MISSING, REFUSED = "ok", "login", "missing", "refused"

EXPECTED = {
    #                  owner    member   viewer   outsider anonymous
    "public": (OK, OK, OK, OK, OK),
    "person": (OK, OK, OK, OK, LOGIN),
    "launcher": (OK, OK, REFUSED, OK, LOGIN),
    "reader": (OK, OK, OK, MISSING, LOGIN),
    "writer": (OK, OK, REFUSED, MISSING, LOGIN),
    "admin": (OK, REFUSED, REFUSED, MISSING, LOGIN),
    "author": (OK, REFUSED, REFUSED, MISSING, LOGIN),
    "own": (OK, MISSING, MISSING, MISSING, LOGIN),
    "staff": (MISSING, MISSING, MISSING, MISSING, MISSING),
    "staff-login": (MISSING, MISSING, MISSING, MISSING, LOGIN),
    "requester": (OK, REFUSED, REFUSED, REFUSED, LOGIN),
    "leaving": (LOGIN, LOGIN, LOGIN, LOGIN, LOGIN),
    "missing": (MISSING, MISSING, MISSING, MISSING, MISSING),
}
"""Results by visitor. The outsider has a team of their own, and may launch there."""


@dataclass(frozen=True)
class Address:
    """Permission rule and request of a URL, and whether it is public for a run visible by link."""

    rule: str
    method: str = "get"
    open: bool = False
    page: bool = False
    """A whole page, included in screenshots and accessibility checks."""
    data: dict[str, str] = field(default_factory=dict)
    query: str = ""


ADDRESSES: dict[str, Address] = {
    # ---- operations
    "alive": Address("public"),
    "ready": Address("public"),
    "figures": Address("staff"),
    "status-line": Address("person"),
    "security-txt": Address("missing"),
    "csp-report": Address("public", "post"),
    # ---- accounts
    "welcome": Address("person"),
    "login": Address("public", page=True),
    "account_login": Address("public"),
    "logout": Address("leaving", "post"),
    "account_logout": Address("leaving", "post"),
    "account_signup": Address("public"),
    "account": Address("person", page=True),
    "account-name": Address("person", "post", data={"username": "ada-lovelace"}),
    "session-end": Address("own", "post"),
    "sessions-end": Address("person", "post"),
    "account_inactive": Address("public"),
    "account_reauthenticate": Address("person"),
    "mfa_authenticate": Address("person"),
    "mfa_login_webauthn": Address("person"),
    "mfa_reauthenticate": Address("person"),
    "mfa_reauthenticate_webauthn": Address("person"),
    "mfa_index": Address("person", page=True),
    "mfa_list_webauthn": Address("person"),
    "mfa_activate_totp": Address("person"),
    "mfa_deactivate_totp": Address("own"),
    "mfa_add_webauthn": Address("person"),
    "mfa_edit_webauthn": Address("person"),
    "mfa_remove_webauthn": Address("person"),
    "mfa_view_recovery_codes": Address("own"),
    "mfa_generate_recovery_codes": Address("person"),
    "mfa_download_recovery_codes": Address("own"),
    "account_email": Address("person", page=True),
    "account_email_verification_sent": Address("public"),
    "account_confirm_email": Address("public"),
    "account_change_password": Address("person", page=True),
    "account_set_password": Address("person"),
    "account_reset_password": Address("public", page=True),
    "account_reset_password_done": Address("public"),
    "account_reset_password_from_key": Address("public"),
    "account_reset_password_from_key_done": Address("public"),
    "socialaccount_connections": Address("person"),
    "socialaccount_signup": Address("leaving"),
    "socialaccount_login_cancelled": Address("public"),
    "socialaccount_login_error": Address("public"),
    "openid_connect_login": Address("missing"),
    "openid_connect_callback": Address("missing"),
    # ---- teams
    "teams": Address("person"),
    "team-create": Address("launcher", "post", data={"name": "Another team"}),
    "team": Address("reader", page=True),
    "team-audit": Address("admin", page=True),
    "team-audit-export": Address("admin"),
    "site-audit": Address("staff-login"),
    "site-audit-export": Address("staff-login"),
    "team-settings": Address("admin", "post", data={"name": "Agents", "retention_days": "30"}),
    "member-role": Address("admin", "post", data={"role": "member"}),
    "member-remove": Address("admin", "post"),
    "invite": Address("admin", "post", data={"role": "viewer", "email": "new@example.org"}),
    "invitation-revoke": Address("admin", "post"),
    "token-create": Address("reader", "post", data={"name": "script", "scopes": "read", "lasts": "30"}),
    "token-revoke": Address("own", "post"),
    "team-share-revoke": Address("writer", "post"),
    "invitation": Address("public", page=True),
    # ---- alerts
    "alerts": Address("person", page=True),
    "alert-new": Address("launcher", page=True),
    "alert-address": Address("public", page=True),
    "alert": Address("reader", page=True),
    "alert-edit": Address("writer", page=True),
    "alert-test": Address("writer", "post"),
    "alert-switch": Address("writer", "post", data={"on": "0"}),
    "alert-secret": Address("writer", "post"),
    "alert-former-secrets": Address("writer", "post"),
    "alert-delete": Address("writer", "post"),
    "delivery": Address("reader", page=True),
    "delivery-again": Address("writer", "post"),
    # ---- annotations
    "annotations": Address("reader"),
    "star": Address("writer", "post"),
    "tag": Address("writer", "post", data={"tag": "odd"}),
    "untag": Address("writer", "post", data={"tag": "odd"}),
    "comment": Address("reader", "post", data={"text": "Look at this."}),
    "comment-edit": Address("author", page=True),
    "comment-delete": Address("author", "post"),
    "inbox": Address("person", page=True),
    "inbox-open": Address("own"),
    "inbox-read": Address("person", "post"),
    "inbox-settings": Address("person", "post"),
    "mention": Address("own"),
    # ---- reports
    "reports": Address("person", page=True),
    "report-new": Address("launcher", page=True),
    "report-preview": Address("launcher", "post", data={"body": "Some *words*."}),
    "report": Address("reader", page=True),
    "report-edit": Address("writer", page=True),
    "report-delete": Address("author", "post"),
    "report-history": Address("reader", page=True),
    "report-revision": Address("reader", page=True),
    "report-restore": Address("writer", "post"),
    # ---- studies
    "studies": Address("person", page=True),
    "study-new": Address("launcher", page=True),
    "study-check": Address("launcher", "post", data={"kind": "catalogue", "study": "figure-9", "scale": "smoke"}),
    "study": Address("reader", page=True),
    "study-export": Address("reader"),
    "study-visibility": Address("writer", "post", data={"visibility": "team"}),
    "study-request": Address("writer", "post"),
    # ---- API: its operations are tested in tests/webapp/api/test_permissions.py
    "api-docs": Address("public", page=True),
    "api:openapi-json": Address("public"),
    # ---- runs
    "runs": Address("person", page=True),
    "launch": Address("launcher", page=True),
    "launch-echo-trap": Address("launcher", "post"),
    "echo-trap": Address("public", page=True),
    "embed-echo-trap": Address("public", page=True),
    "open-recording": Address("launcher", "post"),
    "launch-yaml": Address("launcher", "post"),
    "launch-check": Address("launcher", "post"),
    "launch-exports": Address("launcher", "post"),
    "launch-boards": Address("person"),
    "launch-environment": Address("launcher", query="environment.name=Bandit"),
    "run": Address("reader", open=True, page=True),
    "run-snapshot": Address("reader", open=True),
    "run-highlights": Address("reader", open=True),
    "run-trajectories": Address("reader", open=True, page=True),
    "run-trajectories-counts": Address("reader", open=True),
    "run-curves": Address("reader", open=True, page=True),
    "run-curves-data": Address("reader", open=True, query="names=reward/mean"),
    "run-curves-csv": Address("reader", open=True),
    "run-tasks": Address("reader", open=True),
    "run-tasks-data": Address("reader", open=True),
    "run-faults": Address("reader", open=True),
    "run-echo": Address("reader", open=True),
    "run-echo-svg": Address("reader", open=True),
    "run-evaluation": Address("reader", open=True, page=True),
    "run-evaluation-wall": Address("reader", open=True),
    "run-timeline": Address("reader", open=True, page=True),
    "run-trace": Address("reader", open=True),
    "run-configuration": Address("reader", open=True, page=True),
    "run-log-data": Address("reader"),
    "run-log-text": Address("reader"),
    "run-log": Address("reader", page=True),
    "run-first-successes": Address("reader", open=True, page=True),
    "run-trajectory": Address("reader", open=True),
    "run-export": Address("reader", open=True),
    "run-visibility": Address("writer", "post", data={"visibility": "team"}),
    "run-shares-revoke": Address("writer", "post"),
    "run-checkpoint": Address("reader"),
    "run-model": Address("reader"),
    "run-rebuild": Address("writer", "post"),
    "run-change": Address("writer", "post", data={"optimizer.policy_lr": "5e-5"}),
    "run-rewind": Address("writer", page=True),
    "run-priority": Address("writer", "post", data={"priority": "low"}),
    "run-edit": Address("writer", page=True),
    "run-archive": Address("writer", "post"),
    "run-delete": Address("author", page=True),
    "run-request": Address("writer", "post"),
    "tv": Address("person", page=True),
    "compare": Address("person", page=True),
    "compare-curves-data": Address("person"),
    "saved-views": Address("person", page=True),
    "save-view": Address("person", "post", data={"name": "Failures", "query": "state=failed"}),
    "rename-view": Address("own", "post", data={"name": "Other failures"}),
    "delete-view": Address("own", "post"),
    "watch-view": Address("writer", "post", data={"threshold": "20"}),
    "stop-watching": Address("writer", "post"),
    "label-attempt": Address("writer", "post", data={"answer": "yes"}),
    "palette": Address("person"),
    "undo": Address("admin", "post"),
    "run-follow": Address("reader", "post", data={"on": "1"}),
    "workers": Address("person", page=True),
    "model-status": Address("person"),
    "model-download": Address("launcher", "post"),
    "model-cancel": Address("requester", "post", data={"store": "store"}),
    "model-delete": Address("requester", "post", data={"store": "store"}),
    "train-real-model": Address("launcher", "post"),
    # ---- environments
    "environments": Address("person", page=True),
    "environment": Address("person", page=True),
    "environment-play": Address("person", "post", data={"seed": "7", "action": "1"}),
    # ---- trajectories
    "trajectory": Address("reader", open=True, page=True),
    "trajectory-data": Address("reader", open=True),
    "trajectory-tokens": Address("reader", open=True),
    "trajectory-token-page": Address("reader", open=True, page=True),
    "trajectory-reading": Address("reader", open=True),
    "trajectory-token-computation": Address("reader", open=True),
    "trajectory-tokens-compute": Address("writer", "post"),
    "trajectory-tokens-cancel": Address("writer", "post"),
    "branches": Address("reader", open=True),
    "branch-ask": Address("writer", "post", data={"kind": "branch", "turn": "1", "samples": "4"}),
    "branch-delete": Address("writer", "post"),
    "evaluation-ask": Address("writer", "post", data={"kind": "thoughts", "iteration": "2"}),
    "evaluation-answer": Address("reader", open=True),
    "evaluation-question-delete": Address("writer", "post"),
    "trajectory-picture": Address("reader", open=True),
    "trajectory-board": Address("reader", open=True),
    "trajectory-image": Address("reader", open=True),
    "trajectory-export": Address("reader", open=True),
    "prompt": Address("reader", open=True, page=True),
    "policy-input": Address("reader", open=True, page=True),
    "film": Address("reader", open=True),
    "film-preview": Address("reader", open=True),
    "film-ask": Address("writer", "post"),
    "film-progress": Address("reader", open=True),
    "trajectory-embed": Address("reader", open=True, page=True),
    "thoughts": Address("reader", open=True, page=True),
    "share": Address("writer", "post", data={"ends": "never"}),
    "revoke": Address("writer", "post"),
    "shared": Address("public", page=True),
    "challenge": Address("public", page=True),
    "shared-tokens": Address("public"),
    "shared-picture": Address("public"),
    "shared-image": Address("public"),
    "shared-export": Address("public"),
    "embed": Address("public", page=True),
    "oembed": Address("public"),
}


def patterns(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """(name with namespace, names of its arguments) of every URL pattern, except Django's own admin."""
    own = resolver or get_resolver()
    outer = frozenset(own.pattern.regex.groupindex)
    for pattern in own.url_patterns:
        if isinstance(pattern, URLResolver):
            if pattern.app_name != "admin":
                space = f"{prefix}{pattern.namespace}:" if pattern.namespace else prefix
                yield from ((name, inner | outer) for name, inner in patterns(pattern, space))
        else:
            yield f"{prefix}{pattern.name or pattern.pattern}", outer | frozenset(pattern.pattern.regex.groupindex)
