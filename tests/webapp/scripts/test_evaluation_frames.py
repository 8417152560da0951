"""What the wall of the evaluation says of each frame."""

from __future__ import annotations

from tests.webapp.javascript import evaluate

MODULE = "pages/evaluation_frames.js"


def test_a_puzzle_is_news_only_against_the_evaluation_before() -> None:
    pairs = [["1", None], ["1", "1"], ["1", "0"], ["0", "1"], ["0", None], ["–", "1"]]
    changes = evaluate(MODULE, "data.map(([now, before]) => change(now, before ?? undefined))", pairs)
    assert changes == ["won", "won", "news", "lost", "failed", "none"]


def test_the_words_of_a_frame_count_puzzles_that_were_played() -> None:
    frames = [[0, "0110–"], [8, "1010–"]]
    words = evaluate(MODULE, "[frameText(data[0], undefined, 'puzzle'), frameText(data[1], data[0], 'puzzle')]", frames)
    assert words == [
        "Before the first iteration: 2 of 4 puzzles solved",
        "After iteration 8: 2 of 4 puzzles solved, 1 newly solved, 1 newly lost",
    ]
