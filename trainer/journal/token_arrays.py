"""Packed token arrays of a trajectory: what the policy read and wrote, with its values. Imports no torch."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

VERSION = 2
_HEAD = struct.Struct("<BBHI")  # version, flags, turns, tokens
_CONTEXT_HEAD = struct.Struct("<BIII")  # more flags, segments, tokens that were read, bytes of text; from version 2 on
_WIDE_IDS, _WHY = 1, 1  # flags: one bit, and the first bit of the reason for missing advantages, 0 = none
_NO_ENTROPIES, _CONTEXT, _UPDATE, _MARKS = 16, 32, 64, 128  # flags
_NO_LOGPROBS, _READ_SCORES = 1, 2  # further flags
_SAMPLED, _IN_LOSS, _RESTARTS, _HAS_KIND = 1, 2, 4, 8  # bits of a segment; the kind's number is above them
_MAX_BYTES = 256 * 1024 * 1024  # limit for an unpacked trajectory
_LEVEL = 6
_FINITE = float(np.finfo(np.float16).max)
MAX_TOKENS = 200_000
"""Maximum number of tokens of a trajectory, read and sampled, that sites store and show."""
MAX_TEXT = 1_000_000
"""Maximum length of the text of a context, characters."""
MAX_PACKED = 1_000_000
"""Maximum length of packed arrays, characters: sites read lines of at most 1 MiB."""
_STEPS = 4096  # differences of log-probabilities are rounded to this fraction of a nat, below the noise of bfloat16

Floats = NDArray[np.float16]
Unlearned = Literal["evaluation", "dropped", "broken", "no_update", "not_sent"]
"""Cause of missing advantages: the trajectory belongs to an evaluation; the filter dropped it; its environment failed;
no group of its iteration had a signal, so that there was no update; or another trainer sent none."""
_REASONS: tuple[Unlearned, ...] = get_args(Unlearned)
TokenKind = Literal["template", "system", "task", "observation", "response", "other"]
"""What a token belongs to: text of the chat template; the system message; the task's description before the first
state; a state or the results of calls; a response of the policy; or anything else."""
KINDS: tuple[TokenKind, ...] = get_args(TokenKind)


class TokenArraysError(ValueError):
    """The bytes are not packed token arrays. The message gives the reason."""


@dataclass(frozen=True)
class Segment:
    """Adjacent tokens of one kind, in reading order.

    Attributes:
        turn: the turn whose prompt or response they belong to.
        tokens: their number, at least 1.
        sampled: the policy sampled them.
        in_loss: the update's loss contained them.
        restarts: the policy read them as the beginning of another context, with nothing before them.
    """

    kind: TokenKind
    turn: int
    tokens: int
    sampled: bool = False
    in_loss: bool = False
    restarts: bool = False


@dataclass(frozen=True)
class Context:
    """Reading order of a trajectory, and its m tokens that were read but not sampled, as parallel arrays.

    Attributes:
        segments: of all tokens, sampled ones included.
        ids: (m,) ids of the tokens that were not sampled.
        lengths: (m,) characters of the text that each of them completes.
        text: text of all tokens in reading order, sampled ones included; None if the read text of each turn is the end
            of its recorded message within its frame, and the sampled text its recorded response. What the message has
            before that is the text of the end token sampled before it.
        logprobs, entropies: (m,) of the tokens that were not sampled, nats, NaN where a context begins; None unless
            they were computed afterwards.
    """

    segments: tuple[Segment, ...]
    ids: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    text: str | None
    logprobs: Floats | None = None
    entropies: Floats | None = None


@dataclass(frozen=True)
class TokenUpdates:
    """The n sampled tokens in an update, as parallel arrays.

    Attributes:
        differences: trainer's minus sampler's log-probability, nats, before the update's gradient of this token.
        log_ratios: logarithm of the importance ratio in the last optimiser step.
        clipped: whether a bound cut off the gradient in that step.
    """

    differences: Floats
    log_ratios: Floats
    clipped: NDArray[np.bool_]


@dataclass(frozen=True)
class TokenArrays:
    """The n sampled tokens of a trajectory, turn by turn, as parallel arrays.

    Attributes:
        turns: number of tokens of each turn, from turn 0 on; their sum is n.
        ids: (n,) ids in the policy's vocabulary, including sampled end tokens.
        lengths: (n,) characters (code points) of the turn's `response` that each token completes. A token that ends
            inside a character, or is not part of the text (the end token), has length 0.
        logprobs: (n,) log-probabilities under the sampling distribution, nats; None if another trainer sent none.
        entropies: (n,) entropies of that distribution, nats; None if the engine does not report them.
        advantages: (n,) factor of each token's probability ratio in the update, or None.
        unlearned: reason for missing advantages; None if there are any.
        context: what the policy read; None if it was not recorded.
        updates: values of the update; None without one, or if they were not recorded.
        retokenised: (n,) True where the response's text has other tokens when it is encoded again; None if unknown.
    """

    turns: tuple[int, ...]
    ids: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    logprobs: Floats | None
    entropies: Floats | None
    advantages: Floats | None
    unlearned: Unlearned | None
    context: Context | None = None
    updates: TokenUpdates | None = None
    retokenised: NDArray[np.bool_] | None = None


def arrays(
    turns: Sequence[int],
    ids: Sequence[int],
    lengths: Sequence[int],
    logprobs: Any | None,
    entropies: Any | None,
    advantages: Any | None,
    unlearned: Unlearned | None = None,
    *,
    context: Context | None = None,
    updates: TokenUpdates | None = None,
    retokenised: Any | None = None,
) -> TokenArrays:
    """Build token arrays from plain numbers, in storage precision. NaN becomes 0, infinities become finite.

    Raises:
        TokenArraysError: the arrays contradict each other.
    """
    per_token = [lengths, *(array for array in (logprobs, entropies) if array is not None)]
    if updates is not None:
        per_token += [updates.differences, updates.log_ratios, updates.clipped]
    if retokenised is not None:
        per_token.append(retokenised)
    if sum(turns) != len(ids) or any(len(array) != len(ids) for array in per_token):
        raise TokenArraysError("the token arrays differ in length")
    if advantages is not None and len(advantages) != len(ids):
        raise TokenArraysError("the number of advantages differs from the number of tokens")
    if (advantages is None) != (unlearned is not None):
        raise TokenArraysError("either advantages or a reason for their absence is needed")
    if context is not None:
        _check_segments(context.segments, len(ids), len(context.ids))
    return TokenArrays(
        turns=tuple(turns),
        ids=np.asarray(ids, np.uint32),
        lengths=_lengths(lengths),
        logprobs=None if logprobs is None else _floats(logprobs),
        entropies=None if entropies is None else _floats(entropies),
        advantages=None if advantages is None else _floats(advantages),
        unlearned=unlearned,
        context=context,
        updates=updates,
        retokenised=None if retokenised is None else np.asarray(retokenised, np.bool_),
    )


def context(
    segments: Sequence[Segment],
    ids: Sequence[int],
    lengths: Sequence[int],
    text: str | None = None,
    scores: tuple[Any, Any] | None = None,
) -> Context:
    """Build the reading order from plain numbers; `scores` are log-probabilities and entropies, which may be NaN."""
    if any(len(array) != len(ids) for array in (lengths, *(scores or ()))):
        raise TokenArraysError("the token arrays differ in length")
    logprobs, entropies = map(_floats_or_nan, scores) if scores else (None, None)
    return Context(tuple(segments), np.asarray(ids, np.uint32), _lengths(lengths), text, logprobs, entropies)


def updates(logprobs: Any, trainer_logprobs: Any, ratios: Any, clipped: Any) -> TokenUpdates:
    """Build the values of an update from the sampler's and the trainer's log-probabilities, and importance ratios."""
    with np.errstate(divide="ignore"):
        log_ratios = np.log(np.asarray(ratios, np.float64))
    differences = np.asarray(trainer_logprobs, np.float64) - np.asarray(logprobs, np.float64)
    return TokenUpdates(_rounded(differences), _rounded(log_ratios), np.asarray(clipped, np.bool_))


def pack(tokens: TokenArrays) -> str:
    """Pack the arrays as text for the journal; format: docs/journal.md, "Token arrays"."""
    read, marks, values = tokens.context, tokens.retokenised, tokens.updates
    largest = max((int(np.max(ids)) for ids in (tokens.ids, *([read.ids] if read else [])) if ids.size), default=0)
    wide = largest > 65_535
    reason = 0 if tokens.unlearned is None else 1 + _REASONS.index(tokens.unlearned)
    flags = (_WIDE_IDS if wide else 0) | reason << _WHY | (_NO_ENTROPIES if tokens.entropies is None else 0)
    flags |= (_CONTEXT if read else 0) | (_UPDATE if values else 0) | (0 if marks is None else _MARKS)
    kind_of_id = "<u4" if wide else "<u2"
    text = b"" if read is None or read.text is None else read.text.encode()
    scores = [array for array in (read.logprobs, read.entropies) if array is not None] if read else []
    more = (_NO_LOGPROBS if tokens.logprobs is None else 0) | (_READ_SCORES if scores else 0)
    sizes = (len(read.segments), len(read.ids), len(text)) if read else (0, 0, 0)
    parts = [
        _HEAD.pack(VERSION, flags, len(tokens.turns), len(tokens.ids)),
        _CONTEXT_HEAD.pack(more, *sizes),
        _planes(np.asarray(tokens.turns, "<u4")),
        _planes(tokens.ids.astype(kind_of_id)),
        _planes(tokens.lengths.astype("<u2")),
    ]
    numbers = (tokens.logprobs, tokens.entropies, tokens.advantages)
    parts += [_planes(array.astype("<f2")) for array in numbers if array is not None]
    if read:
        parts += [
            np.asarray([_segment_bits(segment) for segment in read.segments], "<u1").tobytes(),
            _planes(np.asarray([segment.turn for segment in read.segments], "<u2")),
            _planes(np.asarray([segment.tokens for segment in read.segments], "<u4")),
            _planes(read.ids.astype(kind_of_id)),
            _planes(read.lengths.astype("<u2")),
            text,
            *(_planes(array.astype("<f2")) for array in scores),
        ]
    if values:
        parts += [_planes(values.differences.astype("<f2")), _planes(values.log_ratios.astype("<f2"))]
        parts.append(np.packbits(values.clipped).tobytes())
    if marks is not None:
        parts.append(np.packbits(marks).tobytes())
    return as_text(zlib.compress(b"".join(parts), _LEVEL))


def compressed(text: str) -> bytes:
    """Return the decoded, still compressed bytes of the journal's text, as stored in the database.

    Raises:
        TokenArraysError: the text is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise TokenArraysError("the token arrays are not base64") from None


def as_text(data: bytes) -> str:
    """Return the journal's text of packed arrays as stored in the database; `compressed` is its inverse."""
    return base64.b64encode(data).decode()


def unpack(data: bytes | str) -> TokenArrays:
    """Unpack the arrays of a journal's text, or of its decoded bytes; version 1 is without context and updates.

    Raises:
        TokenArraysError: the arrays are damaged, or from a newer version.
    """
    packed = compressed(data) if isinstance(data, str) else bytes(data)
    head_size = _HEAD.size + _CONTEXT_HEAD.size
    head = _decompress(packed, head_size)
    version, flags, turns, count = _HEAD.unpack(head[: _HEAD.size])
    if version not in (1, VERSION):
        raise TokenArraysError(f"the token arrays have version {version}; only 1 and {VERSION} are supported")
    more = segments = read = text_size = 0
    if version == 1:
        head_size, flags = _HEAD.size, flags & (_CONTEXT - 1)
    elif len(head) < head_size:
        raise TokenArraysError("the token arrays end in their head")
    else:
        more, segments, read, text_size = _CONTEXT_HEAD.unpack(head[_HEAD.size :])
    if segments > count + read or text_size > 4 * MAX_TEXT:
        raise TokenArraysError("the token arrays are truncated or too large")
    if (reason := (flags & (_NO_ENTROPIES - 1)) >> _WHY) > len(_REASONS):
        raise TokenArraysError(f"unknown reason {reason} for no advantages")
    ids, bits = "<u4" if flags & _WIDE_IDS else "<u2", -(-count // 8)
    kinds = [("<u4", turns), (ids, count), ("<u2", count)]
    kinds += [("<f2", count)] * ((not more & _NO_LOGPROBS) + (not flags & _NO_ENTROPIES) + (not reason))
    if flags & _CONTEXT:
        kinds += [("<u1", segments), ("<u2", segments), ("<u4", segments), (ids, read), ("<u2", read)]
        kinds += [("<u1", text_size), *[("<f2", read)] * (2 if more & _READ_SCORES else 0)]
    kinds += [("<f2", count), ("<f2", count), ("<u1", bits)] if flags & _UPDATE else []
    kinds += [("<u1", bits)] if flags & _MARKS else []
    columns = _columns(packed, head_size, kinds)
    if int(columns[0].sum(dtype=np.uint64)) != count:
        raise TokenArraysError("the turns of the token arrays do not add up to their tokens")
    rest = iter(columns[3:])
    return TokenArrays(
        turns=tuple(map(int, columns[0])),
        ids=columns[1].astype(np.uint32),
        lengths=columns[2].astype(np.uint16),
        logprobs=None if more & _NO_LOGPROBS else next(rest).astype(np.float16),
        entropies=None if flags & _NO_ENTROPIES else next(rest).astype(np.float16),
        advantages=None if reason else next(rest).astype(np.float16),
        unlearned=_REASONS[reason - 1] if reason else None,
        context=_context(rest, count, scored=bool(more & _READ_SCORES)) if flags & _CONTEXT else None,
        updates=_updates(rest, count) if flags & _UPDATE else None,
        retokenised=_truths(next(rest), count) if flags & _MARKS else None,
    )


def count(data: bytes | str) -> int:
    """Return the number of tokens of a journal's text, or of its decoded bytes, from the head only: read and sampled.

    Raises:
        TokenArraysError: the head is damaged.
    """
    head = _decompress(compressed(data) if isinstance(data, str) else bytes(data), _HEAD.size + _CONTEXT_HEAD.size)
    version, _, _, sampled = _HEAD.unpack(head[: _HEAD.size])
    if version == 1 or len(head) < _HEAD.size + _CONTEXT_HEAD.size:
        return int(sampled)
    return int(sampled + _CONTEXT_HEAD.unpack(head[_HEAD.size :])[2])


def cut(text: str, lengths: Sequence[int]) -> list[str]:
    """Split a turn's response into its tokens' pieces; the last non-empty piece takes the rest."""
    pieces, start = [], 0
    for length in lengths:
        pieces.append(text[start : start + length])
        start += length
    if start < len(text) and pieces:
        last = max((index for index, piece in enumerate(pieces) if piece), default=len(pieces) - 1)
        pieces[last] += text[start:]
    return pieces


def _check_segments(segments: Sequence[Segment], sampled: int, read: int) -> None:
    if any(segment.tokens < 1 for segment in segments):
        raise TokenArraysError("a segment of the token arrays is empty")
    if sum(segment.tokens for segment in segments if segment.sampled) != sampled:
        raise TokenArraysError("the sampled segments of the token arrays do not add up to the sampled tokens")
    if sum(segment.tokens for segment in segments if not segment.sampled) != read:
        raise TokenArraysError("the other segments of the token arrays do not add up to the tokens that were read")


def _segment_bits(segment: Segment) -> int:
    bits = (_SAMPLED if segment.sampled else 0) | (_IN_LOSS if segment.in_loss else 0)
    return bits | (_RESTARTS if segment.restarts else 0) | KINDS.index(segment.kind) * _HAS_KIND


def _context(columns: Iterator[NDArray[Any]], sampled: int, *, scored: bool) -> Context:
    bits, turns, counts, ids, lengths, text = (next(columns) for _ in range(6))
    if bits.size and int(bits.max()) >= len(KINDS) * _HAS_KIND:
        raise TokenArraysError("a segment of the token arrays has an unknown kind")
    segments = tuple(
        Segment(
            KINDS[bit // _HAS_KIND], turn, number, bool(bit & _SAMPLED), bool(bit & _IN_LOSS), bool(bit & _RESTARTS)
        )
        for bit, turn, number in zip(bits.tolist(), turns.tolist(), counts.tolist(), strict=True)
    )
    _check_segments(segments, sampled, len(ids))
    written = text.tobytes().decode(errors="replace") if text.size else None
    logprobs, entropies = (next(columns).astype(np.float16) if scored else None for _ in range(2))
    return Context(segments, ids.astype(np.uint32), lengths.astype(np.uint16), written, logprobs, entropies)


def _updates(columns: Iterator[NDArray[Any]], count: int) -> TokenUpdates:
    differences, log_ratios = next(columns).astype(np.float16), next(columns).astype(np.float16)
    return TokenUpdates(differences, log_ratios, _truths(next(columns), count))


def _truths(bits: NDArray[Any], count: int) -> NDArray[np.bool_]:
    return np.unpackbits(bits.astype(np.uint8), count=count).astype(np.bool_)


def _lengths(values: Sequence[int]) -> NDArray[np.uint16]:
    return np.minimum(values, 65_535).astype(np.uint16)


def _floats(values: Any) -> Floats:
    return _floats_or_nan(np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=_FINITE, neginf=-_FINITE))


def _floats_or_nan(values: Any) -> Floats:
    return np.clip(np.asarray(values, np.float64), -_FINITE, _FINITE).astype(np.float16)


def _rounded(values: NDArray[np.float64]) -> Floats:
    """Round to steps: the last digits of differences are noise, which does not compress. Never −0."""
    finite = np.nan_to_num(values, nan=0.0, posinf=_FINITE, neginf=-_FINITE)
    return _floats(np.round(finite * _STEPS) / _STEPS + 0.0)


def _columns(packed: bytes, start: int, kinds: Sequence[tuple[str, int]]) -> list[NDArray[Any]]:
    """Return the arrays behind the head."""
    sizes = [np.dtype(kind).itemsize * number for kind, number in kinds]
    expected = start + sum(sizes)
    if expected > _MAX_BYTES:
        raise TokenArraysError("the token arrays are truncated or too large")
    raw = _decompress(packed, expected + 1)
    if len(raw) != expected:
        raise TokenArraysError("the length of the token arrays does not match their head")
    columns = []
    for (kind, number), size in zip(kinds, sizes, strict=True):
        columns.append(_whole(raw[start : start + size], kind, number))
        start += size
    return columns


def _planes(values: NDArray[Any]) -> bytes:
    """Reorder bytes: all first bytes, then all second bytes, …, since adjacent similar bytes compress better."""
    return values.view(np.uint8).reshape(-1, values.dtype.itemsize).T.tobytes()


def _whole(data: bytes, kind: str, number: int) -> NDArray[Any]:
    width = np.dtype(kind).itemsize
    return np.frombuffer(np.frombuffer(data, np.uint8).reshape(width, number).T.tobytes(), kind)


def _decompress(data: bytes, size: int) -> bytes:
    """Return the first `size` bytes, or all if there are fewer; journals are untrusted, and zeros compress well."""
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(data, size)
    except zlib.error:
        raise TokenArraysError("the token arrays are not zlib data") from None
    if len(raw) < size and not decompressor.eof:
        raise TokenArraysError("the token arrays are truncated or too large")
    if len(raw) < _HEAD.size:
        raise TokenArraysError("the token arrays end in their head")
    return raw
