"""Permissions of every URL of the site for five kinds of visitors.

Operations under /api/ are tested in tests/webapp/api/test_permissions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import pytest
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client

from tests.webapp.addresses import ADDRESSES, EXPECTED, LOGIN, MISSING, OK, REFUSED, Address, patterns
from tests.webapp.conftest import People
from tests.webapp.full_site_fixture import FullSite, create_full_site
from webapp.runs.models import Run

NOTHING = {"", "api-nothing"}
"""Detail of the API's 404 for an unknown operation."""
ALL = [(name, arguments) for name, arguments in patterns() if name in ADDRESSES]
OF_A_TEAM = ("team", "alert", "delivery", "token", "comment", "report", "study")


@pytest.fixture(scope="module")
def site(module_people: People, module_run: Run) -> FullSite:
    return create_full_site(module_people, module_run)


@pytest.fixture
def full_site(site: FullSite, db: None) -> FullSite:
    return deepcopy(site)


def outcome(response: HttpResponseBase) -> str:
    """Outcome of a request: OK, LOGIN, MISSING, REFUSED, or another status."""
    if response.status_code in {301, 302} and response.headers["Location"].startswith("/login"):
        return LOGIN
    if response.status_code in {404, 403}:
        return MISSING if response.status_code == 404 else REFUSED
    return OK if response.status_code < 500 and response.status_code != 405 else str(response.status_code)


def answer(client: Client, address: Address, path: str) -> HttpResponseBase:
    """Send the request and roll back its changes."""
    client.raise_request_exception = False
    cookies = deepcopy(client.cookies)
    with transaction.atomic():
        response = client.post(path, address.data) if address.method == "post" else client.get(path)
        if response.streaming:
            b"".join(response.streaming_content)
        transaction.set_rollback(True)
    client.cookies = cookies
    return response


def policy_faults(name: str, response: HttpResponseBase) -> str:
    """How the Content-Security-Policy of a granted request differs from the rule: no inline or third-party code."""
    policy = response.headers["Content-Security-Policy"]
    own = "none" if name in {"trajectory-image", "shared-image"} else "self"
    faults = [] if f"default-src '{own}'" in policy and "unsafe" not in policy else [f"the policy is {policy}"]
    if ("frame-ancestors 'none'" not in policy) != (name in {"embed", "embed-echo-trap", "trajectory-embed"}):
        faults.append("who may frame it?")
    return ", ".join(faults)


def test_every_url_is_listed() -> None:
    served = {name for name, _ in patterns() if not name.startswith("api:") or name in ADDRESSES} - NOTHING
    assert served - ADDRESSES.keys() == set(), "tests/webapp/addresses.py says nothing of these"
    assert ADDRESSES.keys() - served == set(), "tests/webapp/addresses.py tells of addresses that are gone"


Expected = tuple[str | None, ...]
"""Outcome for each visitor; None: not tried."""


def compare(full_site: FullSite, rule_of: Mapping[str, Expected], also: str = "") -> None:
    """Fails with all cases that deviate from the rule; `also` is allowed, too."""
    wrong = []
    visitors = full_site.visitors()
    for name, arguments in ALL:
        if name not in rule_of:
            continue
        path = full_site.path(name, arguments, ADDRESSES[name].query)
        for (who, client), expected in zip(visitors, rule_of[name], strict=True):
            if expected is None:
                continue
            response = answer(client, ADDRESSES[name], path)
            got = outcome(response)
            if got not in {expected, also}:
                wrong.append(f"{name}: {who} gets {got}, not {expected} ({path})")
            elif got == OK and ADDRESSES[name].method == "get" and (faults := policy_faults(name, response)):
                wrong.append(f"{name}: {who}: {faults} ({path})")
    assert not wrong, "\n".join(wrong)


def test_every_visitor_gets_what_their_role_allows_without_foreign_code(full_site: FullSite) -> None:
    compare(full_site, {name: EXPECTED[address.rule] for name, address in ADDRESSES.items()})


def test_a_private_run_is_visible_to_its_author_and_admins(full_site: FullSite) -> None:
    Run.objects.filter(pk=full_site.run.pk).update(visibility=Run.Visibility.PRIVATE)
    private: dict[str, Expected] = {
        name: (OK, MISSING, MISSING, MISSING, LOGIN)
        for name, address in ADDRESSES.items()
        if address.rule in {"reader", "writer"} and not name.startswith(OF_A_TEAM)
    }
    compare(full_site, private)


def test_a_public_run_is_read_by_all_and_changed_by_its_team_only(full_site: FullSite) -> None:
    Run.objects.filter(pk=full_site.run.pk).update(visibility=Run.Visibility.LINK)
    opened: dict[str, Expected] = {
        name: (None, None, None, OK, OK) for name, address in ADDRESSES.items() if address.open
    }
    changing: dict[str, Expected] = {
        name: (None, None, None, MISSING, LOGIN)
        for name, address in ADDRESSES.items()
        if address.rule == "writer" and not name.startswith(OF_A_TEAM)
    }
    compare(full_site, opened)
    compare(full_site, changing, also=REFUSED)  # outsiders may know that a public run exists


def test_every_post_requires_a_csrf_token(full_site: FullSite) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(full_site.people.owner)
    for name, arguments in ALL:
        if ADDRESSES[name].method == "post" and name != "csp-report":  # sent by browsers, which know no token
            assert outcome(answer(client, ADDRESSES[name], full_site.path(name, arguments))) == REFUSED, name


def test_changes_are_refused_by_get(full_site: FullSite) -> None:
    client = full_site.visitors()[0][1]
    for name, arguments in ALL:
        if ADDRESSES[name].method == "post" and name not in {"logout", "account_logout"}:
            assert client.get(full_site.path(name, arguments)).status_code == 405, name
