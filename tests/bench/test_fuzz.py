"""Fuzzer: it finds errors, broken answers and leaks, repeats its requests, and finds nothing in the site."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pytest_django import Settings

from bench.fuzz import fuzz_run as fuzz
from bench.fuzz import journals, values
from bench.fuzz.requests import Request, operations, parameter_names, patterns
from bench.fuzz.sender import BROKEN, LEAK, SERVER_ERROR, SLOW_ANSWER, Sender, Tally
from bench.fuzz.site import Site, build
from webapp.runs.models import Run

UNITS = 120


@pytest.fixture
def site(db: None, tmp_path: Path, settings: Settings) -> Site:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.ALLOWED_HOSTS = ["*"]
    return build()


def sent(site: Site, path: str, visitor: str) -> Tally:
    sender = Sender(site, 1)
    sender._send("page", Request("route", visitor, "GET", path), 7)
    sender.close()
    return sender.tally


@pytest.mark.nightly
def test_hundreds_of_requests_find_nothing_and_change_nothing(site: Site) -> None:
    runs = Run.objects.count()
    sender = Sender(site, 1)
    dice = random.Random(1)
    for number in range(UNITS):
        kind = sender.get_kind(number)
        if kind != "socket":  # its threads do not see the transaction of this test
            sender.unit(number)
    sender._import(dice, 0)
    sender.close()
    assert [str(finding) for finding in sender.tally.findings if finding.what != SLOW_ANSWER] == []
    assert sender.tally.requests.keys() == {"page", "api", "journal"}
    assert sender.tally.requests.total() > UNITS
    assert sender.tally.statuses[200] > UNITS / 4
    assert Run.objects.count() == runs + 1, "only the import outside a unit stays"


@pytest.mark.nightly
def test_errors_broken_answers_and_leaks_are_found(site: Site, settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.bench.broken_routes"
    [error] = sent(site, "/fails?q=why", "member").findings
    assert (error.what, error.unit) == (SERVER_ERROR, 7)
    assert "LookupError: why" in error.cause
    assert "GET /fails?q=why as member" in error.request
    [broken] = sent(site, "/breaks", "member").findings
    assert broken.what == BROKEN
    assert "OverflowError: too large" in broken.cause
    [leak] = sent(site, f"/shows?q={site.canary}", "outsider").findings
    assert leak.what == LEAK
    assert sent(site, f"/shows?q={site.canary}", "member").findings == []


@pytest.mark.nightly
def test_members_see_the_canary_where_others_do_not(site: Site) -> None:
    page = f"/runs/{site.secret['slug']}/"
    assert sent(site, page, "member").statuses == {200: 1}
    assert sent(site, page, "outsider").statuses == {404: 1}
    assert sent(site, page, "anonymous").statuses == {302: 1}
    assert sent(site, "/team", "anonymous").findings == []


def test_a_unit_follows_from_its_seed_and_number(site: Site) -> None:
    first, second = Sender(site, 4), Sender(site, 4)
    for number in range(20):
        if first.get_kind(number) in ("page", "api"):
            first.unit(number)
            second.unit(number)
    assert first.tally.routes == second.tally.routes
    assert first.tally.statuses == second.tally.statuses
    first.close()
    second.close()


def test_all_routes_operations_and_parameters_are_known(site: Site) -> None:
    names = {pattern.name for pattern in patterns()}
    assert {"run", "shared", "trajectory-export", "launch-yaml", "run-request"} <= names
    assert all("(?" not in pattern.template and "<" not in pattern.template for pattern in patterns())
    assert {"text", "clone", "visibility", "names"} <= set(parameter_names())
    document = Sender(site, 1).document
    assert {"import_run", "create_run"} <= {operation["operationId"] for _, _, operation in operations(document)}


def test_journals_and_values_are_mutated_reproducibly() -> None:
    whole = "\n".join(journals.recorded()).encode() + b"\n"
    made = [journals.journal(random.Random(number)) for number in range(20)]
    assert made == [journals.journal(random.Random(number)) for number in range(20)]
    assert made.count(whole) < len(made) / 4
    value = {"a": [1, {"b": "text"}]}
    assert any(values.mutated(random.Random(number), value) != value for number in range(5))
    assert value == {"a": [1, {"b": "text"}]}


def test_a_report_shows_each_kind_of_finding_once_and_how_to_repeat_it(site: Site, tmp_path: Path) -> None:
    tally = Tally()
    for number in range(5):
        tally.requests["page"] += 1
        tally.statuses[500] += 1
        tally.findings.append(fuzz.Finding(SERVER_ERROR, "run", f"GET /{number}", number, "LookupError: x"))
    fuzz.save(tally, tmp_path / "tally.json")
    text = fuzz.report(fuzz.load(tmp_path / "tally.json"), 3, 60.0)
    assert text.count("5xx × 5: run: LookupError: x") == 1
    assert "python -m bench.fuzz --seed 3 --replay 0" in text
