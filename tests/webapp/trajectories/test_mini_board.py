"""Small vector boards: what they draw, what they frame, and what they leave out."""

from __future__ import annotations

from xml.etree import ElementTree

from webapp.trajectories.render.mini_board import MAX_MINI_SIDE, fault_cells, mini_board


def sokoban(*rows: str) -> dict[str, object]:
    return {"kind": "grid", "theme": "sokoban", "rows": list(rows)}


def classes(picture: ElementTree.Element) -> set[str | None]:
    return {node.get("class") for node in picture.iter() if node is not picture}


BEFORE = sokoban("######", "# @  #", "# $ .#", "#    #", "######")
AFTER = sokoban("######", "#    #", "# @ .#", "# $  #", "######")


def test_a_board_is_valid_svg_with_its_pieces_and_without_the_outer_wall() -> None:
    picture = ElementTree.fromstring(str(mini_board(AFTER)))
    assert picture.get("viewBox") == "0.6 0.6 4.8 3.8"
    assert classes(picture) == {"floor", "target", "piece box", "crate", "piece player", "body"}


def test_the_box_that_was_pushed_is_framed() -> None:
    assert fault_cells(BEFORE, AFTER) == [(2, 3)]
    assert '<path class="fault" d="M2.02 3.02h' in str(mini_board(AFTER, [(2, 3)]))


def test_the_hole_that_the_player_is_in_is_framed() -> None:
    lake = {"kind": "grid", "theme": "frozen_lake", "rows": ["  O", " XG"]}
    assert fault_cells(None, lake) == [(1, 1)]
    assert 'class="hole"' in str(mini_board(lake))


def test_a_legend_is_drawn_by_its_tones_and_never_as_markup() -> None:
    legend = {"<": {"name": "trap", "tone": "danger", "glyph": "<b"}, "p": {"name": "you", "tone": "player"}}
    board = {"kind": "grid", "theme": '"><script>', "rows": ["<p ", "   "], "legend": legend}
    text = str(mini_board(board))
    assert "<script" not in text
    assert classes(ElementTree.fromstring(text)) == {"floor", "tone danger", "piece player", "body"}


def test_other_boards_and_large_grids_have_none() -> None:
    assert mini_board(None) is None
    assert mini_board({"kind": "text", "text": "no grid"}) is None
    assert mini_board({"kind": "grid", "theme": "unknown", "rows": ["ab"]}) is None
    assert mini_board(sokoban(" " * (MAX_MINI_SIDE + 1))) is None
    assert mini_board(sokoban()) is None


def test_a_bandit_has_its_arms_with_the_pulled_one_marked_and_escaped_names() -> None:
    arms = [{"name": name, "pulls": pulls, "total": 0.0, "last": None} for name, pulls in (("Dragon", 0), ("<b>", 2))]
    picture = ElementTree.fromstring(str(mini_board({"kind": "arms", "arms": arms})))
    assert [node.text for node in picture.iter("text")] == ["D", "<"]
    assert [node.get("class") for node in picture.findall("g/g")] == ["lever", "lever pulled"]
    assert mini_board({"kind": "arms", "arms": arms * 3}) is None
