"""The operator's contact for reports of vulnerabilities."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

PATH = "/.well-known/security.txt"


def test_it_is_absent_unless_the_operator_names_a_contact() -> None:
    assert Client().get(PATH).status_code == 404


@pytest.mark.parametrize(
    ("contact", "written"),
    [
        ("security@example.org", "mailto:security@example.org"),
        ("https://example.org/security", "https://example.org/security"),
    ],
)
def test_it_names_the_contact_and_expires_within_a_year(contact: str, written: str, settings: Settings) -> None:
    settings.ECHOSCOPE_SECURITY_CONTACT, settings.ECHOSCOPE_URL = contact, "https://echoscope.example.org"
    answer = Client().get(PATH)
    fields = dict(line.split(": ", 1) for line in answer.content.decode().splitlines())
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert fields["Contact"] == written
    assert fields["Canonical"] == f"https://echoscope.example.org{PATH}"
    until = datetime.fromisoformat(fields["Expires"]) - timezone.now()
    assert timedelta(days=170) < until < timedelta(days=365)
