"""Arithmetic of the token view, without a browser: shades, legends, descriptions of token values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webapp.javascript import evaluate


def token(text: str = " push", **numbers: Any) -> dict[str, Any]:
    return {"text": text, "id": 7, "p": 0.5, "logprob": -0.6931, "entropy": 0.3, "advantage": None} | numbers


@pytest.mark.parametrize(
    ("measure", "numbers", "level", "sign"),
    [
        ("p", {"p": 1.0}, 0, ""),
        ("p", {"p": 0.9}, 0, ""),
        ("p", {"p": 0.89}, 1, ""),
        ("p", {"p": 0.3}, 2, ""),
        ("p", {"p": 0.1}, 3, ""),
        ("p", {"p": 0.0}, 4, ""),
        ("entropy", {"entropy": 0.0}, 0, ""),
        ("entropy", {"entropy": 0.1}, 1, ""),
        ("entropy", {"entropy": 2.5}, 4, ""),
        ("entropy", {"entropy": None}, 0, ""),
        ("advantage", {"advantage": 2.0}, 4, "+"),
        ("advantage", {"advantage": -2.0}, 4, "−"),
        ("advantage", {"advantage": 0.05}, 0, ""),
        ("advantage", {"advantage": -0.6}, 2, "−"),
        ("advantage", {"advantage": None}, 0, ""),
    ],
)
def test_shades_follow_the_value_and_its_sign(measure: str, numbers: dict[str, Any], level: int, sign: str) -> None:
    found = evaluate("player/token_legend.js", f"shade(data, {measure!r}, 2)", token(**numbers))
    assert found == {"level": level, "sign": sign}


def test_the_largest_advantage_of_the_trajectory_sets_the_scale() -> None:
    turns = [{"turn": 0, "tokens": [token(advantage=0.5), token(advantage=-3.0)]}, {"turn": 1, "tokens": [token()]}]
    assert evaluate("player/token_legend.js", "maxAdvantage(data)", turns) == 3
    assert evaluate("player/token_legend.js", "maxAdvantage(data)", []) == 0


@pytest.mark.parametrize("measure", ["p", "entropy"])
def test_the_legend_has_an_entry_for_every_shade(measure: str) -> None:
    assert [entry["level"] for entry in evaluate("player/token_legend.js", "legendEntries(data, 1)", measure)] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_the_legend_of_advantages_goes_from_the_worst_to_the_best_in_numbers() -> None:
    found = evaluate("player/token_legend.js", "legendEntries('advantage', data)", 2)
    assert [entry["words"] for entry in found] == [
        "≤ −1.5",
        "≤ −1",
        "≤ −0.5",
        "≤ −0.1",
        "about 0",
        "≥ +0.1",
        "≥ +0.5",
        "≥ +1",
        "≥ +1.5",
    ]
    assert [entry["sign"] for entry in found] == ["−"] * 4 + [""] + ["+"] * 4
    assert [entry["words"] for entry in evaluate("player/token_legend.js", "legendEntries('advantage', data)", 0)] == [
        "0"
    ]


@pytest.mark.parametrize(
    ("given", "index", "words"),
    [
        (
            token(entropy=None),
            2,
            "“ push” · probability 50.0% · log-probability −0.693 nats · token 3 of 45 in turn 3 · id 7",
        ),
        (
            token(advantage=1.24),
            11,
            "“ push” · probability 50.0% · log-probability −0.693 nats · entropy 0.3 nats · "
            "advantage +1.24 · token 12 of 45 in turn 3 · id 7",
        ),
        (
            token(p=0.000012, logprob=-11.3),
            0,
            "“ push” · probability 0.0012% · log-probability −11.3 nats · "
            "entropy 0.3 nats · token 1 of 45 in turn 3 · id 7",
        ),
        (
            token("", advantage=-0.004),
            44,
            "End of the response · probability 50.0% · log-probability −0.693 nats · "
            "entropy 0.3 nats · advantage −0.004 · token 45 of 45 in turn 3 · id 7",
        ),
        (
            token(""),
            3,
            "Part of a character · probability 50.0% · log-probability −0.693 nats · entropy 0.3 nats · "
            "token 4 of 45 in turn 3 · id 7",
        ),
        (
            token("  "),
            3,
            "“␣␣” · probability 50.0% · log-probability −0.693 nats · entropy 0.3 nats · "
            "token 4 of 45 in turn 3 · id 7",
        ),
    ],
)
def test_token_statistics_are_described_with_their_units(given: dict[str, Any], index: int, words: str) -> None:
    place = {"index": index, "count": 45, "turn": 2}
    expression = "describeToken(data.token, data.place)"
    assert evaluate("player/token_legend.js", expression, {"token": given, "place": place}) == words


def test_line_ends_are_visible() -> None:
    assert evaluate("player/token_legend.js", "data.map(visibleText)", ["a\nb", "\t\tx\r\n"]) == [
        "a↵\nb",
        "⇥\t⇥\tx␍↵\n",
    ]


def test_tokens_that_show_nothing_have_a_name() -> None:
    texts = ["", "\u200d", "\ufe0f", " ", "\u200da", "👩"]
    assert evaluate("player/token_legend.js", "data.map((text) => silentName(text, false))", texts) == [
        "Part of a character",
        "U+200D",
        "U+FE0F",
        "",
        "",
        "",
    ]
