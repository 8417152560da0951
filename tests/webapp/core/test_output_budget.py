"""No renderer makes a large output of a small input, whatever is written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from webapp.annotations.markup import comment_html
from webapp.api import errors
from webapp.core import markdown
from webapp.core.output_budget import json_text, yaml_text
from webapp.explorer.compare import differences
from webapp.reports.blocks import blocks
from webapp.runs.models import Run
from webapp.trajectories.render.mini_board import mini_board
from webapp.trajectories.text_diff import compare_turns
from webapp.trajectories.turn_text import extra_text

BASE, FACTOR = 1_050_000, 20
"""Bytes that any input may become, and how many times its bytes a larger one."""

TEXT_RENDERERS: Mapping[str, Callable[[str], str]] = {
    "Markdown": markdown.render,
    "report": lambda text: "".join(map(str, blocks(text, ["testserver"]))),
    "comment": lambda text: comment_html(text, ["a", "bob"]),
    "diff": lambda text: "".join(
        piece.text
        for pair in compare_turns([{"thought": text}], [{"thought": text[::-1]}])
        for piece in [*pair.thought.left, *pair.thought.right, *pair.thought.both]
    ),
    "board": lambda text: str(mini_board({"kind": "grid", "theme": "sokoban", "rows": text.split("\n"), "legend": {}})),
    "error": lambda text: errors.answer(errors.invalid(dict.fromkeys(text.split(), text))).content.decode(),
    "fields": lambda text: extra_text({"text": text}),
}
DATA_RENDERERS: Mapping[str, Callable[[Any], str]] = {
    "JSON": lambda data: json_text(data, indent=2),
    "YAML": yaml_text,
    "fields": lambda data: extra_text({"data": data}),
    "comparison": lambda data: "".join(
        setting.name + "".join(setting.values)
        for group in differences([Run(config={"recorded": recorded}) for recorded in ({"data": data}, {})])
        for setting in group.differences
    ),
}

_PIECES = (
    "[a]",
    "[a]: /",
    "a|",
    "-|",
    "> ",
    "- ",
    "# ",
    "`",
    "*",
    '"',
    "&",
    "<a@b.co>",
    "a.co ",
    "@bob ",
    "/runs/",
    "\n",
)
_repeated = st.builds(
    lambda piece, times: piece * times,
    st.sampled_from(_PIECES) | st.text(max_size=4),
    st.integers(1, 4) | st.integers(1, 3_000),
)
hostile_texts = st.lists(_repeated, max_size=8).map("".join)
REFERENCES = f"[a]: /{'x' * 25_000}\n\n{'[a]' * 8_300}"
SHORT_REFERENCES = f'[a]: /{"x" * 1_000} "{"t" * 900}"\n\n{"[a]" * 8_300}'
EMPTY_CELLS = ("a|" * 250 + "\n" + "-|" * 250 + "\n" + "a\n" * 250 + "\n") * 20


def nested(depth: int, length: int, *, mapping: bool) -> Any:
    """A list of zeros in so many lists or mappings."""
    data: Any = [0] * length
    for _ in range(depth):
        data = {"a": data} if mapping else [data]
    return data


@pytest.mark.parametrize("name", TEXT_RENDERERS)
@given(text=hostile_texts)
@example(text=REFERENCES)
@example(text=SHORT_REFERENCES)
@example(text=EMPTY_CELLS)
@example(text="| a | b |\n" * 1_000 + "x y" * 10_000)
def test_a_text_becomes_at_most_a_page(name: str, text: str) -> None:
    made = TEXT_RENDERERS[name](text)
    assert len(made.encode(errors="replace")) <= max(BASE, FACTOR * len(text.encode(errors="replace")))


@pytest.mark.parametrize("name", DATA_RENDERERS)
@given(data=st.builds(nested, st.integers(0, 150), st.integers(0, 3_000), mapping=st.booleans()))
@example(data=nested(150, 20_000, mapping=True))
@example(data=nested(150, 40_000, mapping=False))
@example(data={"n" * 30_000: {str(number): number for number in range(3_000)}})
def test_nesting_does_not_multiply_data(name: str, data: Any) -> None:
    assert len(DATA_RENDERERS[name](data)) <= max(200_000, 5 * len(json.dumps(data)))


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(-1e9, 1e9)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\x7f\u2028é😀:", max_size=4), inner, max_size=4)
    ),
)


@given(data=_values, long=st.booleans())
@example(data={"\x85": ["\x85 word " * 40]}, long=False)
@example(data={'\\"1e': [1e-05, -2e300, 1.5e-07, 10, 0.5, math.inf, -math.inf, "\\", "3e5"]}, long=True)
def test_yaml_is_read_back_as_the_same_data(data: Any, long: bool) -> None:
    whole = {"data": data, "long": ["x" * 210_000] if long else []}
    text = yaml_text(whole)
    assert ("\n" in text.rstrip("\n")) is not long
    assert yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)) == whole


@pytest.mark.parametrize("text", [REFERENCES, SHORT_REFERENCES])
def test_references_beyond_the_budget_stay_text(text: str) -> None:
    html = markdown.render(text)
    assert "[a][a][a]</p>" in html
    assert (html.count("<a ") > 50) is (text is SHORT_REFERENCES)


def test_a_document_that_is_too_large_says_that_it_was_cut() -> None:
    text = ('"' * 2_000 + "\n\n") * 100  # each quotation mark becomes six bytes
    assert markdown.render(text).endswith(markdown.CUT)
    html = "".join(map(str, blocks(text + "/runs/xyz/\n\n" + text, [])))
    assert html.count(markdown.CUT) == 1
    assert len(html.encode()) <= BASE


def test_an_invalid_request_lists_its_first_problems() -> None:
    body = json.loads(errors.answer(errors.invalid({f"field{n}": "is unknown" for n in range(90_000)})).content)[
        "error"
    ]
    assert "field0 is unknown; field1 is unknown" in body["message"]
    assert "further problems" in body["message"]
    assert body["fields"]["field0"] == "is unknown"
    assert len(json.dumps(body)) < 100_000
