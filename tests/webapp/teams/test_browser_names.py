"""Browsers are recognised by the headers that they send today."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.teams.browser_names import MAX_PROGRAM_LENGTH, UNKNOWN, client_name

MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/"
WINDOWS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)
ANDROID = "Mozilla/5.0 (Linux; Android 15; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) "
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox on Linux"),
        (f"{MAC}605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15", "Safari on macOS"),
        (f"{MAC}537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36", "Chrome on macOS"),
        (f"{WINDOWS} Edg/140.0.0.0", "Edge on Windows"),
        (f"{WINDOWS} OPR/120.0.0.0", "Opera on Windows"),
        (f"{ANDROID}Chrome/140.0.0.0 Mobile Safari/537.36", "Chrome on Android"),
        (f"{ANDROID}SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36", "Samsung Internet on Android"),
        (f"{IPHONE}Version/18.1 Mobile/15E148 Safari/604.1", "Safari on iPhone"),
        (f"{IPHONE}CriOS/140.0.0.0 Mobile/15E148 Safari/604.1", "Chrome on iPhone"),
        ("curl/8.5.0", "curl"),
        ("Mozilla/5.0", UNKNOWN),
        ("Unspecified", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_browser_is_named_with_its_system(header: str, name: str) -> None:
    assert client_name(header) == name


@given(st.text(max_size=200))
def test_any_header_has_a_short_name(header: str) -> None:
    assert 0 < len(client_name(header)) <= MAX_PROGRAM_LENGTH + len(" on Windows")
