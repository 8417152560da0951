"""Token arrays: round trip, damaged data, pieces of a response."""

from __future__ import annotations

import base64
import dataclasses
import math
import zlib
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainer.journal import token_arrays as tokens_of
from trainer.journal.token_arrays import (
    KINDS,
    Context,
    Segment,
    TokenArrays,
    TokenArraysError,
    TokenUpdates,
    Unlearned,
    arrays,
    compressed,
    cut,
    pack,
    unpack,
)

halves = st.floats(-65_504, 65_504, width=16)  # without bounds most draws overflow and are discarded


@st.composite
def token_arrays(draw: st.DrawFn) -> TokenArrays:
    turns = draw(st.lists(st.integers(1, 30), max_size=6))
    n = sum(turns)
    column = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    widest = draw(st.sampled_from([640, 65_535, 65_536, 2**32 - 1]))
    unlearned = draw(st.sampled_from([None, *get_args(Unlearned)]))
    maybe = lambda values: column(values) if draw(st.booleans()) else None  # noqa: E731
    updates = None
    if draw(st.booleans()):
        updates = TokenUpdates(
            *(np.asarray(column(v), t) for v, t in ((halves, "f2"), (halves, "f2"), (st.booleans(), "?")))
        )
    return arrays(
        turns,
        column(st.integers(0, widest)),
        column(st.integers(0, 65_535)),
        maybe(halves),
        maybe(halves),
        None if unlearned else column(halves),
        unlearned,
        context=draw(contexts(turns, widest)) if draw(st.booleans()) else None,
        updates=updates,
        retokenised=maybe(st.booleans()),
    )


@st.composite
def contexts(draw: st.DrawFn, turns: list[int], widest: int) -> Context:
    segments: list[Segment] = []
    for turn, count in enumerate(turns):
        for _ in range(draw(st.integers(0, 3))):
            kind, tokens = draw(st.sampled_from(KINDS)), draw(st.integers(1, 9))
            segments.append(Segment(kind, turn, tokens, False, draw(st.booleans()), draw(st.booleans())))
        segments.append(Segment("response", turn, count, True, draw(st.booleans())))
    read = sum(segment.tokens for segment in segments if not segment.sampled)
    numbers = lambda most: draw(st.lists(st.integers(0, most), min_size=read, max_size=read))  # noqa: E731
    text = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
    scored = st.lists(halves, min_size=read, max_size=read)
    scores = draw(st.none() | st.tuples(scored, scored))
    return tokens_of.context(segments, numbers(widest), numbers(65_535), draw(text), scores)


def same(a: Any, b: Any) -> bool:
    """Compare two values, or two dataclasses of them, some of which are arrays."""
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return np.array_equal(a, b) and a.dtype == b.dtype if isinstance(a, np.ndarray) else bool(a == b)


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
        (squeezed(b"\x03" + bytes(20)), "version 3"),
        (squeezed(b"\x02" + bytes(7)), "end in their head"),
        (squeezed(b"\x02\x20" + bytes(6) + b"\x00\x01" + bytes(11)), "too large"),
        (squeezed(b"\x02\x20" + bytes(15) + b"\x01\x00\x00\x01" + bytes(8)), "too large"),
        (squeezed(b"\x01\x0c" + bytes(6)), "reason 6"),
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


def test_version_1_is_read_as_it_was_written() -> None:
    """Recordings from before the reading order: a turn of two tokens with the ids 7 and 8, and advantages."""
    planes = b"\x07\x08\x00\x00" + b"\x04\x00\x00\x00" + b"\x00\x00\xbc\xb8" + b"\x00\x00\x38\x3c" + b"\x00\x00\x3c\x3c"
    tokens = unpack(squeezed(b"\x01\x00\x01\x00\x02\x00\x00\x00" + b"\x02\x00\x00\x00" + planes))
    assert tokens.ids.tolist() == [7, 8]
    assert tokens.lengths.tolist() == [4, 0]
    assert tokens.logprobs is not None
    assert tokens.logprobs.tolist() == [-1.0, -0.5]
    assert tokens.advantages is not None
    assert tokens.advantages.tolist() == [1.0, 1.0]
    assert tokens.context is None


def test_segments_that_do_not_fit_the_tokens_are_refused() -> None:
    numbers = ([1], [5], [1], [0.0], None, [1.0])
    for segments in ([Segment("response", 0, 2, True)], [Segment("task", 0, 1)], [Segment("task", 0, 0)]):
        with pytest.raises(TokenArraysError, match="segment"):
            arrays(*numbers, context=tokens_of.context(segments, [], []))
