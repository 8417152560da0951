"""Arithmetic of the tokens page, without a browser: shades, parts, search, and code that builds the ids again."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.webapp.javascript import evaluate

TEXTS = ["<s>", "Say ", "É\n", '"no"', "yes", "<end>", "<s>", "Say ", "ok"]


def segment(kind: str, turn: int, start: int, tokens: int, **flags: bool) -> dict[str, Any]:
    known = {"sampled": False, "in_loss": False, "restarts": False} | flags
    return {"kind": kind, "name": kind.capitalize(), "turn": turn, "start": start, "tokens": tokens} | known


def reading(**columns: Any) -> dict[str, Any]:
    segments = [
        segment("template", 0, 0, 1),
        segment("task", 0, 1, 3),
        segment("response", 0, 4, 1, sampled=True, in_loss=True),
        segment("template", 1, 5, 1, in_loss=True),
        segment("task", 1, 6, 2, restarts=True),
        segment("response", 1, 8, 1, sampled=True),
    ]
    known = {
        "segments": segments,
        "texts": TEXTS,
        "ids": [1, 5, 6, 7, 8, 2, 1, 5, 9],
        "clipped": [],
        "retokenised": [8],
    }
    return known | columns


def evaluated(expression: str, **columns: Any) -> Any:
    return evaluate("player/reading.js", expression, reading(**columns))


def test_parts_are_what_was_read_or_written_at_once() -> None:
    assert evaluated("partsOf(data.segments).map(partTitle)") == [
        "Turn 1 · 4 tokens read",
        "Turn 1 · 1 token written",
        "After the response · 1 token appended",
        "Turn 2 · 2 tokens read, from an empty context",
        "Turn 2 · 1 token written",
    ]


@pytest.mark.parametrize(
    ("query", "by", "found"),
    [
        ("SAY é", "text", [[1, 3]]),
        ("say", "text", [[1, 2], [7, 8]]),
        ("sye", "text", []),
        ("", "text", []),
        ("1, 5", "ids", [[0, 2], [6, 8]]),
        ("5 1", "ids", []),
        ("no number", "ids", []),
    ],
)
def test_runs_of_tokens_are_found(query: str, by: str, found: list[list[int]]) -> None:
    assert evaluated(f"search(data, {query!r}, {by!r})") == found


@pytest.mark.parametrize(
    ("mode", "value", "shade"),
    [
        ("difference", 0.019, [0, ""]),
        ("difference", -0.6, [3, "−"]),
        ("ratio", 1.3, [2, "+"]),
        ("ratio", 0.3, [4, "−"]),
        ("logprob", -0.1, [0, ""]),
        ("logprob", -4, [4, ""]),
        ("advantage", 2, [4, "+"]),
        ("share", 0.2, [1, ""]),
        ("entropy", None, [0, ""]),
    ],
)
def test_shades_follow_the_distance_from_the_usual(mode: str, value: float | None, shade: list[Any]) -> None:
    most = "{most: 2, segment: data.segments[0], retokenised: new Set()}"
    found = evaluated(f"shadeOf(data, 4, {mode!r}, {most})", **{mode: [None] * 4 + [value] + [None] * 4})
    assert [found["level"], found["sign"]] == shade


def test_only_modes_with_something_to_see_are_offered() -> None:
    assert evaluated("[...modesOf(data)]", entropy=[0.1] * 9) == ["kind", "loss", "entropy", "retokenised"]


def test_a_token_is_described_with_what_is_known() -> None:
    columns = {
        "logprob": [None] * 8 + [-0.5],
        "difference": [None] * 8 + [0.25],
        "ratio": [None] * 8 + [1.5],
        "clipped": [8],
    }
    assert evaluated("describe(data, 8)", **columns) == (
        "“ok” · id 9 · sampled · not in the loss · probability 60.7% · log-probability −0.5 nats · in the trainer "
        "−0.25 (+0.25) · ratio 1.5, clipped · a different token when the text is tokenised again · token 9 of 9"
    )
    assert evaluated("describe(data, 5)").startswith("“<end>” · id 2 · template · in the loss")


def test_the_copied_code_builds_the_ids_again(monkeypatch: pytest.MonkeyPatch) -> None:
    code = evaluated("pythonCode(data, 'a/model')")
    ids = reading()["ids"]
    known = {"".join(TEXTS[a:b]): ids[a:b] for a, b in ((0, 4), (5, 6), (6, 8))}
    tokenizer = SimpleNamespace(encode=lambda text, add_special_tokens: known[text])
    transformers = ModuleType("transformers")
    transformers.AutoTokenizer = SimpleNamespace(from_pretrained=lambda name: tokenizer)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    exec(code, {})
    assert code.count("assert ids ==") == 2
    with pytest.raises(AssertionError):
        exec(code.replace("[8]", "[3]"), {})
