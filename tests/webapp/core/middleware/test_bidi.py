"""Bidirectional controls in texts of others are visible on pages and reorder nothing."""

from __future__ import annotations

from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.conftest import People
from tests.webapp.javascript import evaluate
from webapp.core.middleware.bidi import with_visible_controls
from webapp.runs.models import Run

TURNED = "photo \u202egnp.exe\u2069"
SHOWN = "photo [U+202E]gnp.exe[U+2069]"
DOCUMENT = """{
  createElement: () => ({ children: [], setAttribute() {}, append(...nodes) { this.children.push(...nodes); } }),
}"""


def test_pages_show_the_controls_of_a_title_and_its_form_keeps_them(client: Client, people: People, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(title=TURNED, notes=f"**{TURNED}** and &#x202E;")
    client.force_login(people.owner)
    for address in ("/", f"/runs/{run.slug}/"):
        page = client.get(address, follow=True).content.decode()
        assert SHOWN in page
        assert f">{TURNED}" not in page
    form = client.get(f"/runs/{run.slug}/edit").content.decode()
    assert f'value="{TURNED}"' in form
    assert f"**{TURNED}** and &amp;#x202E;</textarea>" in form


TEXTS = st.text(st.sampled_from("ab \n'\u202e\u202a\u2066\u2069\u200f\u2019"), max_size=8)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS)))
def test_only_visible_text_is_changed(parts: list[tuple[str, str, str]]) -> None:
    markup = '<p title="{1}">{0}</p><textarea\nname=a>{1}</textarea><script>{2}</script>'
    document = "".join(markup.format(*part) for part in parts)
    shown = "".join(
        markup.format(evaluate("ui/dom.js", "visibleText(data)", text), field, script) for text, field, script in parts
    )
    assert with_visible_controls(document) == shown


def test_scripts_show_the_controls_of_texts_that_they_add() -> None:
    nodes = f"globalThis.document = {DOCUMENT}, html('p', {{}}, [data, html('b', {{}}, [data])]).children"
    words, bold = evaluate("ui/dom.js", nodes, TURNED)
    assert [words, *bold["children"]] == [SHOWN, SHOWN]
    assert evaluate("ui/dom.js", "((node) => (setText(node, data), node.textContent))({})", TURNED) == SHOWN
