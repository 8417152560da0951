"""Cache headers of the API."""

from __future__ import annotations

import pytest
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["/api/me", "/api/runs", "/api/nothing"])
def test_no_cache_keeps_a_response(address: str) -> None:
    assert Client().get(address)["Cache-Control"] == "private, no-store"
