"""Packed token arrays of a trajectory: ids, log-probabilities, entropies and advantages. Imports no torch."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

VERSION = 1
_HEAD = struct.Struct("<BBHI")  # version, flags, turns, tokens
_WIDE_IDS, _WHY = 1, 1  # flags: one bit, and the first bit of the reason for missing advantages, 0 = none
_NO_ENTROPIES = 16  # a flag
_MAX_BYTES = 256 * 1024 * 1024  # limit for an unpacked trajectory
_LEVEL = 6
_FINITE = float(np.finfo(np.float16).max)

Floats = NDArray[np.float16]
Unlearned = Literal["evaluation", "dropped", "broken", "no_update"]
"""Cause of missing advantages: the trajectory belongs to an evaluation; the filter dropped it; its environment failed;
or no group of its iteration had a signal, so that there was no update."""
_REASONS: tuple[Unlearned, ...] = get_args(Unlearned)


class TokenArraysError(ValueError):
    """The bytes are not packed token arrays. The message gives the reason."""


@dataclass(frozen=True)
class TokenArrays:
    """The n sampled tokens of a trajectory, turn by turn, as parallel arrays.

    Attributes:
        turns: number of tokens of each turn, from turn 0 on; their sum is n.
        ids: (n,) ids in the policy's vocabulary, including sampled end tokens.
        lengths: (n,) characters (code points) of the turn's `response` that each token completes. A token that ends
            inside a character, or is not part of the text (the end token), has length 0.
        logprobs: (n,) log-probabilities under the sampling distribution, nats.
        entropies: (n,) entropies of that distribution, nats; None if the engine does not report them.
        advantages: (n,) factor of each token's probability ratio in the update, or None.
        unlearned: reason for missing advantages; None if there are any.
    """

    turns: tuple[int, ...]
    ids: NDArray[np.uint32]
    lengths: NDArray[np.uint16]
    logprobs: Floats
    entropies: Floats | None
    advantages: Floats | None
    unlearned: Unlearned | None


def arrays(
    turns: Sequence[int],
    ids: Sequence[int],
    lengths: Sequence[int],
    logprobs: Any,
    entropies: Any | None,
    advantages: Any | None,
    unlearned: Unlearned | None = None,
) -> TokenArrays:
    """Build token arrays from plain numbers, in storage precision. NaN becomes 0, infinities become finite."""
    per_token = [lengths, logprobs] if entropies is None else [lengths, logprobs, entropies]
    if sum(turns) != len(ids) or any(len(array) != len(ids) for array in per_token):
        raise TokenArraysError("the token arrays differ in length")
    if advantages is not None and len(advantages) != len(ids):
        raise TokenArraysError("the number of advantages differs from the number of tokens")
    if (advantages is None) != (unlearned is not None):
        raise TokenArraysError("either advantages or a reason for their absence is needed")
    return TokenArrays(
        turns=tuple(turns),
        ids=np.asarray(ids, np.uint32),
        lengths=np.minimum(lengths, 65_535).astype(np.uint16),
        logprobs=_floats(logprobs),
        entropies=None if entropies is None else _floats(entropies),
        advantages=None if advantages is None else _floats(advantages),
        unlearned=unlearned,
    )


def pack(tokens: TokenArrays) -> str:
    """Pack the arrays as text for the journal; format: docs/journal.md, "Token arrays"."""
    wide = bool(tokens.ids.size) and int(np.max(tokens.ids)) > 65_535
    reason = 0 if tokens.unlearned is None else 1 + _REASONS.index(tokens.unlearned)
    flags = (_WIDE_IDS if wide else 0) | reason << _WHY | (_NO_ENTROPIES if tokens.entropies is None else 0)
    parts = [
        _HEAD.pack(VERSION, flags, len(tokens.turns), len(tokens.ids)),
        _planes(np.asarray(tokens.turns, "<u4")),
        _planes(tokens.ids.astype("<u4" if wide else "<u2")),
        _planes(tokens.lengths.astype("<u2")),
        _planes(tokens.logprobs.astype("<f2")),
    ]
    parts += [_planes(array.astype("<f2")) for array in (tokens.entropies, tokens.advantages) if array is not None]
    return base64.b64encode(zlib.compress(b"".join(parts), _LEVEL)).decode()


def compressed(text: str) -> bytes:
    """Return the decoded, still compressed bytes of the journal's text, as stored in the database.

    Raises:
        TokenArraysError: the text is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise TokenArraysError("the token arrays are not base64") from None


def unpack(data: bytes | str) -> TokenArrays:
    """Unpack the arrays of a journal's text, or of its decoded bytes.

    Raises:
        TokenArraysError: the arrays are damaged, or from a newer version.
    """
    packed = compressed(data) if isinstance(data, str) else bytes(data)
    version, flags, turns, count = _HEAD.unpack(_decompress(packed, _HEAD.size))
    if version != VERSION:
        raise TokenArraysError(f"the token arrays have version {version}; only {VERSION} is supported")
    if (reason := (flags & ~_NO_ENTROPIES) >> _WHY) > len(_REASONS):
        raise TokenArraysError(f"unknown reason {reason} for no advantages")
    kinds = [("<u4", turns), ("<u4" if flags & _WIDE_IDS else "<u2", count), ("<u2", count), ("<f2", count)]
    kinds += [("<f2", count)] * ((0 if flags & _NO_ENTROPIES else 1) + (0 if reason else 1))
    sizes = [np.dtype(kind).itemsize * number for kind, number in kinds]
    expected = _HEAD.size + sum(sizes)
    if expected > _MAX_BYTES:
        raise TokenArraysError("the token arrays are truncated or too large")
    raw = _decompress(packed, expected + 1)
    if len(raw) != expected:
        raise TokenArraysError("the length of the token arrays does not match their head")
    columns, start = [], _HEAD.size
    for (kind, number), size in zip(kinds, sizes, strict=True):
        columns.append(_whole(raw[start : start + size], kind, number))
        start += size
    if int(columns[0].sum(dtype=np.uint64)) != count:
        raise TokenArraysError("the turns of the token arrays do not add up to their tokens")
    return TokenArrays(
        turns=tuple(map(int, columns[0])),
        ids=columns[1].astype(np.uint32),
        lengths=columns[2].astype(np.uint16),
        logprobs=columns[3].astype(np.float16),
        entropies=None if flags & _NO_ENTROPIES else columns[4].astype(np.float16),
        advantages=None if reason else columns[-1].astype(np.float16),
        unlearned=_REASONS[reason - 1] if reason else None,
    )


def count(data: bytes | str) -> int:
    """Return the number of tokens of a journal's text, or of its decoded bytes, from the head only.

    Raises:
        TokenArraysError: the head is damaged.
    """
    head = _decompress(compressed(data) if isinstance(data, str) else bytes(data), _HEAD.size)
    return int(_HEAD.unpack(head)[3])


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


def _floats(values: Any) -> Floats:
    wide = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=_FINITE, neginf=-_FINITE)
    return np.clip(wide, -_FINITE, _FINITE).astype(np.float16)


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
