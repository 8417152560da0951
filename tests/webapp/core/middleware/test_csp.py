"""Content-Security-Policy headers."""

from __future__ import annotations

import pytest
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/login", "/", "/s/thereisnosuchtoken", "/healthz"])
def test_every_response_forbids_inline_and_third_party_code(path: str) -> None:
    policy = Client().get(path)["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
