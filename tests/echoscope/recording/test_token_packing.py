"""Tokens of the recorder: packed as the trainer packs them, and never an exception in a training loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echoscope
from echoscope.recording.token_packing import KINDS, TokenColumns, pack, turns_of
from trainer.journal import token_arrays
from trainer.journal.events import TrajectoryTokens


@st.composite
def token_columns(draw: st.DrawFn) -> TokenColumns:
    sampled = draw(st.lists(st.booleans(), min_size=1, max_size=40).filter(any))
    n = len(sampled)
    column = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    maybe = lambda values: column(values) if draw(st.booleans()) else None  # noqa: E731
    numbers = st.floats(-50, 50, width=16)
    return TokenColumns(
        ids=column(st.integers(0, draw(st.sampled_from([600, 2**32 - 1])))),
        texts=column(st.text(st.characters(exclude_categories=["Cs"]), max_size=3)),
        sampled=sampled,
        in_loss=column(st.booleans()),
        restarts=column(st.booleans()),
        kinds=column(st.sampled_from(KINDS)),
        turns=turns_of(sampled),
        logprobs=maybe(numbers),
        trainer_logprobs=maybe(numbers),
        ratios=maybe(st.floats(0.125, 8, width=16)),
        entropies=maybe(numbers),
        advantages=maybe(numbers),
    )


@given(token_columns())
def test_the_trainers_reader_reads_what_was_packed(given_columns: TokenColumns) -> None:
    found = token_arrays.unpack(pack(given_columns))
    places = given_columns.places
    assert found.context is not None
    assert "".join(given_columns.texts) == (found.context.text or "")
    ids, others = iter(found.ids.tolist()), iter(found.context.ids.tolist())
    order, flags = [], []
    for segment in found.context.segments:
        order += [next(ids if segment.sampled else others) for _ in range(segment.tokens)]
        first = [(segment.sampled, segment.in_loss, segment.kind, segment.turn)] * segment.tokens
        flags += first
    assert order == given_columns.ids
    assert flags == list(
        zip(given_columns.sampled, given_columns.in_loss, given_columns.kinds, given_columns.turns, strict=True)
    )
    for packed, sent in ((found.logprobs, given_columns.logprobs), (found.advantages, given_columns.advantages)):
        assert (packed is None) == (sent is None)
        if packed is not None and sent is not None:
            assert packed.tolist() == [sent[place] for place in places]
    differences = given_columns.differences()
    assert (found.updates is None) == (differences is None)
    if found.updates is not None and differences is not None:
        assert np.allclose(found.updates.differences.astype(float), differences, atol=1e-3, rtol=1e-3)


def test_turns_are_counted_by_responses_and_the_rest_belongs_to_the_last() -> None:
    assert turns_of([False, True, True, False, True, False]) == [0, 0, 0, 1, 1, 1]


def recorded(folder: Path, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    run = echoscope.init("tokens", folder=folder)
    (attempt,) = run.group(1, prompt="Guess.", iteration=1, environment="Wordle")
    attempt.tokens(**calls[0])
    attempt.turn(state="a", response="b")
    attempt.finish(success=True)
    for call in calls[1:]:
        attempt.tokens(**call)
    run.finish()
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def test_tokens_follow_the_end_whenever_they_are_sent(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    events = recorded(tmp_path, {"ids": torch.tensor([5, 6]), "sampled": np.array([False, True]), "texts": ["a", "b"]})
    kinds = [event["type"] for event in events]
    assert kinds.index("trajectory_tokens") == kinds.index("trajectory_finished") + 1
    event = TrajectoryTokens.model_validate(events[kinds.index("trajectory_tokens")])
    assert event.unlearned == "not_sent"
    assert token_arrays.unpack(event.data).logprobs is None


@pytest.mark.parametrize(
    ("call", "message", "written"),
    [
        ({"ids": [1, 2], "sampled": [True]}, "2 ids, and sampled has 1", False),
        ({"ids": [1, 2], "sampled": [False, False]}, "none of them was sampled", False),
        ({"ids": [-1], "sampled": [True]}, "not whole numbers", False),
        ({"ids": [1] * 200_001, "sampled": [True] * 200_001}, "at most 200,000", False),
        ({"ids": [1, 2], "sampled": [True, True], "logprobs": [0.0]}, "1 elements for 2 tokens", True),
        ({"ids": [1, 2], "sampled": [True, True], "turns": [0, 5000]}, "from 0 to 999", True),
        ({"ids": [1, 2], "sampled": [True, True], "texts": ["a" * 600_000] * 2}, "are left out: 1,000,000 fit", True),
        ({"ids": ["a"], "sampled": [True]}, "recorded nothing", False),
        ({"ids": None, "sampled": None}, "recorded nothing", False),
    ],
)
def test_what_cannot_be_recorded_is_a_warning(
    call: dict[str, Any], message: str, written: bool, tmp_path: Path
) -> None:
    with pytest.warns(RuntimeWarning, match=message):
        events = recorded(tmp_path, call)
    assert any(event["type"] == "trajectory_tokens" for event in events) is written


def test_a_second_call_changes_nothing(tmp_path: Path) -> None:
    call = {"ids": [1], "sampled": [True]}
    with pytest.warns(RuntimeWarning, match="it has some"):
        events = recorded(tmp_path, call, call)
    assert sum(event["type"] == "trajectory_tokens" for event in events) == 1
