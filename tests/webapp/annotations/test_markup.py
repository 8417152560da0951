"""Text of annotations: normalised tags, mentions, escaped HTML."""

from __future__ import annotations

import pytest

from webapp.annotations.markup import comment_html, mentioned_names, normal_tag


@pytest.mark.parametrize(
    "written, kept",
    [
        ("  Stuck  in a CORNER ", "stuck in a corner"),
        ("#corner", "corner"),
        ("Éclair", "éclair"),
        ("ﬁnal", "final"),
        ("   ", ""),
        ("#", ""),
    ],
)
def test_a_tag_is_normalised(written: str, kept: str) -> None:
    assert normal_tag(written) == kept


@pytest.mark.parametrize(
    "text, names",
    [
        ("@ada look", ["ada"]),
        ("Ask @Grace.Hopper, or @ada.", ["grace.hopper", "ada"]),
        ("mail ada@example.org", []),
        ("(@ada) @ada", ["ada"]),
        ("first\n@grace", ["grace"]),
    ],
)
def test_mentions_start_with_an_at_sign_at_a_word_boundary(text: str, names: list[str]) -> None:
    assert mentioned_names(text) == names


def test_markup_is_escaped() -> None:
    shown = comment_html('<script>alert(1)</script> & "quotes" <img src=x onerror=alert(1)>')
    assert "<script" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;" in shown


def test_only_http_addresses_become_links() -> None:
    shown = comment_html("see https://example.org/a?b=1&c=2 and javascript:alert(1)")
    assert '<a href="https://example.org/a?b=1&amp;c=2" rel="nofollow">' in shown
    assert "javascript:" in shown
    assert 'href="javascript' not in shown


def test_only_notified_users_are_highlighted() -> None:
    shown = comment_html("@ada and @nobody and <b>@ada</b>", ["Ada"])
    assert shown.count('<b class="mention">@ada</b>') == 1
    assert "@nobody" in shown
    assert "&lt;b&gt;" in shown
