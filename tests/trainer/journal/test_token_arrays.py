"""Token arrays: round trip, damaged data, pieces of a response."""

from __future__ import annotations

import base64
import math
import zlib
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainer.journal.token_arrays import TokenArrays, TokenArraysError, Unlearned, arrays, compressed, cut, pack, unpack

halves = st.floats(-65_504, 65_504, width=16)  # without bounds most draws overflow and are discarded


@st.composite
def token_arrays(draw: st.DrawFn) -> TokenArrays:
    turns = draw(st.lists(st.integers(1, 30), max_size=6))
    n = sum(turns)
    column = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    widest = draw(st.sampled_from([640, 65_535, 65_536, 2**32 - 1]))
    unlearned = draw(st.sampled_from([None, *get_args(Unlearned)]))
    return arrays(
        turns,
        column(st.integers(0, widest)),
        column(st.integers(0, 65_535)),
        column(halves),
        column(halves) if draw(st.booleans()) else None,
        None if unlearned else column(halves),
        unlearned,
    )


def same(a: TokenArrays, b: TokenArrays) -> bool:
    columns = ("ids", "lengths", "logprobs", "entropies")
    if (a.advantages is None) != (b.advantages is None) or (a.entropies is None) != (b.entropies is None):
        return False
    alike = a.advantages is None or np.array_equal(a.advantages, b.advantages)
    return (
        a.turns == b.turns
        and a.unlearned == b.unlearned
        and alike
        and all(np.array_equal(getattr(a, c), getattr(b, c)) for c in columns)
    )


@given(token_arrays())
def test_arrays_survive_the_round_trip_as_text_and_as_bytes(tokens: TokenArrays) -> None:
    text = pack(tokens)
    assert same(unpack(text), tokens)
    assert same(unpack(compressed(text)), tokens)


@given(token_arrays(), st.integers(0), st.integers(1, 255))
@example(arrays([], [], [], [], None, [], None), 7, 64)  # a bit between the last block and the checksum
def test_damaged_arrays_are_refused_or_read_as_they_were(tokens: TokenArrays, place: int, change: int) -> None:
    """zlib's checksum sees every changed byte of the content; a few bits that fill up its last byte mean nothing."""
    raw = bytearray(compressed(pack(tokens)))
    raw[place % len(raw)] ^= change
    try:
        found = unpack(bytes(raw))
    except TokenArraysError:
        return
    assert same(found, tokens)


def squeezed(raw: bytes) -> bytes:
    return zlib.compress(raw)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("no base64!", "not base64"),
        (b"nothing", "not zlib data"),
        (squeezed(b""), "end in their head"),
        (squeezed(b"\x02" + bytes(7)), "version 2"),
        (squeezed(b"\x01\x0a" + bytes(6)), "reason 5"),
        (squeezed(b"\x01\x00\x01\x00\x09\x00\x00\x00"), "does not match their head"),
        (squeezed(b"\x01\x00\x01\x00\x00\x00\x00\x00\x05\x00\x00\x00"), "do not add up"),
        (squeezed(b"\x01\x00\x01\x00\x00\x00\x00\x00" + bytes(4))[:-3], "truncated"),
        (squeezed(b"\x01\x00\x01\x00\xff\xff\xff\xff" + bytes(4)), "too large"),
        (squeezed(b"\x01\x00\x01\x00\x00\x00\x00\x00" + bytes(400)), "does not match their head"),
    ],
)
def test_invalid_data_is_reported_with_the_problem(data: bytes | str, complaint: str) -> None:
    with pytest.raises(TokenArraysError, match=complaint):
        unpack(data)


def test_non_finite_numbers_become_finite() -> None:
    values = [math.nan, math.inf, -math.inf, 1e9]
    found = arrays([4], [1, 2, 3, 4], [1, 1, 1, 1], values, values, values)
    assert found.logprobs.tolist() == found.advantages.tolist() == [0, 65504, -65504, 65504]  # type: ignore[union-attr]


def test_arrays_of_different_lengths_are_rejected() -> None:
    with pytest.raises(TokenArraysError, match="differ in length"):
        arrays([2], [1, 2], [1], [0, 0], [0, 0], None, "dropped")
    with pytest.raises(TokenArraysError, match="number of advantages differs"):
        arrays([1], [1], [1], [0], [0], [1, 2])
    with pytest.raises(TokenArraysError, match="either advantages or a reason"):
        arrays([1], [1], [1], [0], [0], None)


@pytest.mark.parametrize(
    ("text", "lengths", "pieces"),
    [
        ("Push up", [4, 3, 0], ["Push", " up", ""]),
        ("a→b", [1, 0, 1, 1], ["a", "", "→", "b"]),
        ("longer than listed", [6, 0], ["longer than listed", ""]),
        ("", [0, 0], ["", ""]),
        ("no tokens", [], []),
    ],
)
def test_a_response_is_split_at_the_ends_of_its_tokens(text: str, lengths: list[int], pieces: list[str]) -> None:
    assert cut(text, lengths) == pieces


def test_a_turn_takes_few_bytes() -> None:
    rng = np.random.default_rng(0)
    n = 200
    packed = pack(
        arrays(
            [40] * 5,
            rng.integers(0, 640, n).tolist(),
            rng.integers(1, 7, n).tolist(),
            -rng.exponential(0.5, n),
            rng.exponential(0.4, n),
            rng.normal(size=n),
        )
    )
    assert len(base64.b64decode(packed)) < 9 * n, "about the nine bytes a token that its numbers have"
