"""Markdown of users is rendered without anything that runs or loads."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from webapp.core.markdown import render

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "![picture](https://example.org/pixel.png)",
    '<a href="x" onclick="alert(1)">a</a>',
    "[a](vbscript:x)",
)


def test_headings_links_and_tables() -> None:
    html = render("# Result\n\n**49 %**, see [run](https://example.org/a)\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n")
    assert "<h3>Result</h3>" in html
    assert "<strong>49 %</strong>" in html
    assert '<a href="https://example.org/a" rel="nofollow noopener ugc">run</a>' in html
    assert "<td>1</td>" in html


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(text: str) -> None:
    html = render(text)
    assert set(re.findall(r"<(\w+)", html)) <= {"p", "a"}
    assert not re.search(r"<a[^>]*(javascript|vbscript|data|onclick)", html)


@given(st.text(alphabet="<>[]()!\"'`*_#&;:/=-abjscript \n|", max_size=80))
def test_no_other_tags_whatever_is_written(text: str) -> None:
    tags = set(re.findall(r"<(\w+)", render(text)))
    known = "p a strong em code pre h3 h4 h5 h6 ul ol li blockquote hr br table thead tbody tr th td"
    assert tags <= set(known.split())


LINES = (
    "# A",
    "word *b* [a] [b][a]",
    "[a]: https://example.org/x 'title'",
    "| a | b |",
    "| - | :-: |",
    "- c",
    "> d",
    "",
)


@given(st.lists(st.sampled_from(LINES), max_size=40).map("\n".join))
def test_an_ordinary_text_is_rendered_as_without_budgets(text: str) -> None:
    plain = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(text)
    expected = re.sub(r"<(/?)h1>", r"<\1h3>", plain)
    assert render(text).replace(' rel="nofollow noopener ugc"', "") == expected
