"""The `term` tag: definitions on pages."""

from __future__ import annotations

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from webapp.core.definitions import DEFINITIONS


def rendered(source: str) -> str:
    return Template("{% load term_tags site_tags %}" + source).render(Context({"request": RequestFactory().get("/")}))


def test_a_term_shows_its_definition_and_stays_unique_on_the_page() -> None:
    page = rendered('{% term "echo-trap" %} {% term "echo-trap" "Echo Trap watch" %}')
    meaning = DEFINITIONS["echo-trap"].meaning
    assert page.count(f'title="{meaning}"') == 2
    assert page.count(f"popover>{meaning}<") == 2
    for number, label in ((1, "Echo Trap"), (2, "Echo Trap watch")):
        assert f'popovertarget="term-echo-trap-{number}"' in page
        assert f'id="term-echo-trap-{number}"' in page
        assert f">{label}</button>" in page


def test_an_unknown_term_is_an_error() -> None:
    with pytest.raises(KeyError):
        rendered('{% term "nothing" %}')


def test_people_count_from_one() -> None:
    assert rendered("{{ 0|ordinal }} {{ 14|ordinal }}") == "1 15"
