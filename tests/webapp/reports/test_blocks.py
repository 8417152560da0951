"""Which lines of a report become embeds, and that its text runs nothing."""

from __future__ import annotations

import re
import time

import pytest
from django.urls import ResolverMatch, resolve, reverse
from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.core.test_markdown import HOSTILE
from webapp.reports.blocks import MAX_ADDRESSES, blocks, references
from webapp.reports.models import Report
from webapp.reports.references import KINDS, MAX_ROWS, PLACES, Reference

HOSTS = frozenset({"echo.example"})


@pytest.mark.parametrize(
    ("line", "kind", "slugs"),
    [
        ("/runs/abc234/", "runs", ("abc234",)),
        ("https://echo.example/runs/abc234/", "runs", ("abc234",)),
        ("  <https://ECHO.example/runs/abc234/evaluation>  ", "runs", ("abc234",)),
        ("[Success](/runs/abc234/curves?names=reward/mean)", "curves", ("abc234",)),
        ("/compare?runs=abc234,def567", "curves", ("abc234", "def567")),
        ("/t/abc234?turn=2&action=3", "trajectory", ("abc234",)),
        ("/t/abc234/prompt", "film", ("abc234",)),
        ("/s/abc234", "share", ("abc234",)),
        ("/embed/abc234?turn=1", "share", ("abc234",)),
    ],
)
def test_an_address_alone_on_a_line_is_a_reference(line: str, kind: str, slugs: tuple[str, ...]) -> None:
    (found,) = references(line, HOSTS)
    assert (found.kind, found.slugs) == (kind, slugs)


def test_a_reference_keeps_position_metrics_and_caption() -> None:
    body = "[The move](/t/abc234?turn=2&action=3)\n/runs/abc234/curves?names=reward/mean,success/rate"
    player, curve = references(body, HOSTS)
    assert (player.position, player.caption) == ((1, 2), "The move")
    assert curve.names == ("reward/mean", "success/rate")


@pytest.mark.parametrize(
    "line",
    [
        "see /runs/abc234/",
        "https://elsewhere.example/runs/abc234/",
        "//echo.example/runs/abc234/",
        "javascript:/runs/abc234/",
        "/runs/abc234/log",
        "/compare",
        "/api/runs",
        "/admin/",
        "https://[::1/runs/abc234/",
        "/" + 2000 * "a",
        "",
    ],
)
def test_other_lines_stay_text(line: str) -> None:
    assert references(line, HOSTS) == []


def test_runs_that_follow_each_other_are_rows_of_one_table() -> None:
    body = "/runs/a/\n/runs/b/evaluation\n\n/runs/a/\n\ntext\n\n/runs/c/\n[Two](/runs/d/)\n/runs/e/curves\n"
    found = references(body, HOSTS)
    assert [(one.kind, one.slugs) for one in found] == [
        ("runs", ("a", "b")),
        ("runs", ("c",)),
        ("runs", ("d",)),
        ("curves", ("e",)),
    ]
    many = references("".join(f"/runs/r{number}/\n" for number in range(MAX_ROWS + 1)), HOSTS)
    assert [len(one.slugs) for one in many] == [MAX_ROWS, 1]


def test_embeds_stand_between_texts_and_not_in_lists_quotes_or_code() -> None:
    body = (
        "First\n/runs/abc234/\nsecond [link]\n\n- /runs/abc234/\n\n> /t/abc234\n\n```\n/t/abc234\n```\n\n/t/abc234\n\n"
    )
    body += "[link]: https://example.org\n"
    found = blocks(body, HOSTS)
    assert [type(block) is Reference for block in found] == [False, True, False, True]
    assert '<a href="https://example.org"' in str(found[2]), "definitions hold for the whole text"
    assert len(references(body, HOSTS)) == 2


def test_headings_begin_below_the_title_and_a_bare_address_is_a_link() -> None:
    (text,) = blocks("# Result\n\nhttps://example.org/a?b=1&c=2\n", HOSTS)
    assert "<h2>Result</h2>" in str(text)
    assert '<a href="https://example.org/a?b=1&amp;c=2"' in str(text)


@pytest.mark.parametrize("text", [*HOSTILE, "/runs/<script>alert(1)</script>/", '[<b>](/t/abc234?turn="><script>)'])
def test_hostile_text_runs_nothing(text: str) -> None:
    for block in blocks(text, HOSTS):
        if not isinstance(block, Reference):
            assert set(re.findall(r"<(\w+)", block)) <= {"p", "a", "em", "strong"}
            assert not re.search(r"<a[^>]*(javascript|vbscript|data:|onclick)", block)


@given(st.text(alphabet="<>[]()!\"'`*_#&;:/=-abjstrun234 \n|?", max_size=120))
def test_no_other_tags_whatever_is_written(text: str) -> None:
    known = "p a strong em code pre h2 h3 h4 h5 h6 ul ol li blockquote hr br table thead tbody tr th td"
    for block in blocks(text, HOSTS):
        if not isinstance(block, Reference):
            assert set(re.findall(r"<(\w+)", block)) <= set(known.split())


@pytest.mark.parametrize("piece", ["[", "*a ", "<", "`", "> ", "- ", "|a", "![](", "[a](", "/runs/abc234/\n", "a\n"])
def test_the_time_of_a_long_text_grows_with_its_length(piece: str) -> None:
    def seconds(length: int) -> float:
        begin = time.process_time()
        blocks((piece * length)[:length], HOSTS)
        return time.process_time() - begin

    assert seconds(48_000) < 10 * max(0.1, seconds(12_000)), "four times as long; its square would be sixteen times"


def test_an_excerpt_is_plain_text() -> None:
    body = "# Heading\n\nThe **trap**:\n\n/runs/abc234/\n\nA & B <i>\n" + 100 * "word "
    text = Report(body=body).excerpt
    assert text.startswith("The trap: A & B <i> word word")
    assert len(text) <= 180


def test_only_addresses_of_pages_that_are_embedded_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"run": "slug", "run-evaluation": "slug", "run-curves": "slug", "trajectory": "slug", "prompt": "slug"}
    places |= {"shared": "token", "embed": "token", "compare": ""}
    assert places.keys() == KINDS.keys()
    for name, argument in places.items():
        assert reverse(name, kwargs={argument: "abc234"} if argument else {}).startswith(PLACES)
    tried: list[str] = []

    def observed(path: str) -> ResolverMatch:
        tried.append(path)
        return resolve(path)

    monkeypatch.setattr("webapp.reports.references.resolve", observed)
    assert references("/usr/bin/env\n/admin/\n/run\n/compare\n", HOSTS) == []
    assert tried == ["/compare"]
    references("/runs/abc234/log\n" * (MAX_ADDRESSES + 100), HOSTS)
    assert len(tried) == 1 + MAX_ADDRESSES
