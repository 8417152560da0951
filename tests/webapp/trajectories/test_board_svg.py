"""Boards as SVG: whatever a journal contains, the drawing is well-formed, refers to nothing, and becomes a picture."""

from __future__ import annotations

import re
from typing import Any, get_args
from xml.etree import ElementTree

from hypothesis import example, given
from hypothesis import strategies as st

from envs.base import Tone
from webapp.trajectories.render.board import board_svg, draw_board
from webapp.trajectories.render.mini_board import mini_board
from webapp.trajectories.render.palette import BOARD_STYLE

HOSTILE = '\x00\x0b\ud800\ufffe<&>"\'{}]]><image href="file:///etc/passwd"/>'
texts = st.text(max_size=12) | st.sampled_from((HOSTILE, "</text>", "中ß→"))
signs = st.fixed_dictionaries(
    {"name": texts, "tone": st.sampled_from(get_args(Tone)) | texts}, optional={"glyph": texts}
)
rows = st.lists(st.text(st.sampled_from(" #$.@*+XOGab\x00<"), max_size=8), max_size=6)
themes = st.sampled_from(("sokoban", "frozen_lake", "2048", "rubiks_cube")) | texts
grids = st.fixed_dictionaries(
    {"kind": st.just("grid"), "theme": themes, "rows": rows | st.lists(texts, max_size=3)},
    optional={"legend": st.dictionaries(st.sampled_from("ab#@\x00<"), signs)},
)
arms = st.fixed_dictionaries(
    {"name": texts, "pulls": st.integers(), "total": st.floats(), "last": st.none() | st.floats()}
)
items = st.fixed_dictionaries({"text": texts, "detail": texts, "action": texts, "chosen": st.booleans()})
sections = st.fixed_dictionaries(
    {
        "layout": st.sampled_from(("note", "buttons", "list", "choices", "text")),
        "title": texts,
        "items": st.lists(items, max_size=4),
    }
)
boards = st.one_of(
    grids,
    st.fixed_dictionaries({"kind": st.just("arms"), "arms": st.lists(arms, max_size=5)}),
    st.fixed_dictionaries(
        {"kind": st.just("page"), "title": texts, "address": texts, "sections": st.lists(sections, max_size=3)},
        optional={"last": texts},
    ),
    st.fixed_dictionaries({"kind": st.just("text"), "text": texts}, optional={"grid": grids}),
)
marks = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("blunder", "mistake", "inaccuracy")),
        "glyph": st.sampled_from(("?", "??")),
        "played": texts,
        "better": st.lists(texts | st.just("Up"), max_size=2),
        "cells": st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=2),
        "origin": st.sampled_from(([], [0, 0])),
    }
)
KNOWN = {"svg", "style", "g", "path", "rect", "circle", "text"}


@given(boards, st.none() | marks)
@example({"kind": "text", "text": HOSTILE}, None)
@example({"kind": "arms", "arms": [{"name": HOSTILE, "pulls": 10**400, "total": 0, "last": 1e300}]}, None)
@example({"kind": "grid", "theme": HOSTILE, "rows": ["a"], "legend": {"a": {"name": HOSTILE, "glyph": HOSTILE}}}, None)
def test_any_board_is_well_formed_and_becomes_a_picture(board: dict[str, Any], mark: dict[str, Any] | None) -> None:
    for text in (board_svg(board, mark), str(mini_board(board) or "<svg/>")):
        for node in ElementTree.fromstring(text).iter():
            assert node.tag.rpartition("}")[2] in KNOWN
            assert not {name for name in node.attrib if "href" in name or name.startswith("on")}
    assert draw_board(board, 40, mark).size == (40, 40)


def test_the_style_sheet_of_pictures_has_only_what_the_rasteriser_knows() -> None:
    assert not re.findall(r"var\(|light-dark|@|:is|:has|calc", BOARD_STYLE)
    selectors = [one.strip() for some in re.findall(r"([^{}]+)\{", BOARD_STYLE) for one in some.split(",")]
    assert [one for one in selectors if not re.fullmatch(r"[.\w-]+( [.\w-]+)*", one)] == []


def test_what_is_drawn_has_a_look() -> None:
    legend = {chr(97 + at): {"name": tone, "tone": tone, "glyph": "8"} for at, tone in enumerate(get_args(Tone))}
    drawn = [
        {"kind": "grid", "theme": "sokoban", "rows": ["#####", "#@$*.", "#####"]},
        {"kind": "grid", "theme": "frozen_lake", "rows": [" OG@X"]},
        {"kind": "grid", "theme": "2048", "rows": ["".join(legend)], "legend": legend},
        {"kind": "arms", "arms": [{"name": "A", "pulls": 1}]},
    ]
    mark = {"kind": "blunder", "glyph": "??", "played": "", "better": ["up"], "cells": [[1, 1]], "origin": [1, 2]}
    nodes = [node for board in drawn for node in ElementTree.fromstring(board_svg(board, mark)).iter()]
    names = {name for node in nodes if "fill" not in node.attrib for name in node.get("class", "").split()}
    without = {"grid", "legend", "sokoban", "frozen_lake", "theme-2048", "piece", "lever", "pulled", "on"}
    assert {name for name in names - without if not re.search(rf"\.{name}\b", BOARD_STYLE)} <= {
        "mistake-glyph",
        "blunder",
    }
