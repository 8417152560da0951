"""A trajectory's tokens as numbers, packed for the journal and unpacked for readers: pure functions, no torch.

Which trajectories are kept, and where the numbers come from, is token_record.py's business.
"""

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
_WIDE_IDS, _WHY = 1, 1  # flags: one bit, then from this bit on why there are no advantages, 0 where there are
_NO_ENTROPIES = 16  # a flag
_LONGEST = 256 * 1024 * 1024  # bytes that a packed trajectory may become
_LEVEL = 6
_FINITE = float(np.finfo(np.float16).max)

Floats = NDArray[np.float16]
Unlearned = Literal["evaluation", "dropped", "broken", "no_update"]
"""Why a trajectory has no advantages: it was played in an evaluation; the filter dropped it; the environment broke it
off; no group of its iteration had a signal, so that there was no update."""
_REASONS: tuple[Unlearned, ...] = get_args(Unlearned)


class TokenArraysError(ValueError):
    """Bytes that are no packed token arrays. The message says why."""


@dataclass(frozen=True)
class TokenArrays:
    """The n sampled tokens of a trajectory, turn after turn; all arrays run parallel.

    Attributes:
        turns: how many tokens each turn has, from turn 0 on; their sum is n.
        ids: (n,) ids in the policy's vocabulary, the end tokens that were drawn included.
        lengths: (n,) characters (code points) of the turn's `response` that each token completes. A token that ends
            inside a character, or is not part of the text (the end token), has 0.
        logprobs: (n,) log-probabilities under the distribution that was sampled from, nats.
        entropies: (n,) entropies of that distribution, nats; None where the engine did not tell.
        advantages: (n,) what the update multiplied each token's probability ratio with, or None.
        unlearned: why there are none; None where there are.
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
    """Token arrays of plain numbers, in the precision they are kept in. What is not finite becomes finite: NaN is 0."""
    told = [lengths, logprobs] if entropies is None else [lengths, logprobs, entropies]
    if sum(turns) != len(ids) or any(len(array) != len(ids) for array in told):
        raise TokenArraysError("the arrays of a trajectory's tokens differ in length")
    if advantages is not None and len(advantages) != len(ids):
        raise TokenArraysError("there must be as many advantages as tokens")
    if (advantages is None) != (unlearned is not None):
        raise TokenArraysError("either there are advantages, or there is a reason why not")
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
    """As text for the journal: see docs/journal.md, "Token arrays"."""
    wide = bool(tokens.ids.size) and int(tokens.ids.max()) > 65_535
    why = 0 if tokens.unlearned is None else 1 + _REASONS.index(tokens.unlearned)
    flags = (_WIDE_IDS if wide else 0) | why << _WHY | (_NO_ENTROPIES if tokens.entropies is None else 0)
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
    """The bytes behind the journal's text, still compressed: what a database keeps.

    Raises:
        TokenArraysError: the text is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise TokenArraysError("the token arrays are not base64") from None


def unpack(data: bytes | str) -> TokenArrays:
    """The arrays in a journal's text, or in the bytes behind it.

    Raises:
        TokenArraysError: they are damaged, or of a newer version.
    """
    raw = _decompress(compressed(data) if isinstance(data, str) else bytes(data))
    if len(raw) < _HEAD.size:
        raise TokenArraysError("the token arrays end in their head")
    version, flags, turns, count = _HEAD.unpack_from(raw)
    if version != VERSION:
        raise TokenArraysError(f"these token arrays are of version {version}, and only {VERSION} is known")
    if (why := (flags & ~_NO_ENTROPIES) >> _WHY) > len(_REASONS):
        raise TokenArraysError(f"nothing is known of reason {why} to have no advantages")
    kinds = [("<u4", turns), ("<u4" if flags & _WIDE_IDS else "<u2", count), ("<u2", count), ("<f2", count)]
    kinds += [("<f2", count)] * ((0 if flags & _NO_ENTROPIES else 1) + (0 if why else 1))
    sizes = [np.dtype(kind).itemsize * number for kind, number in kinds]
    if len(raw) != _HEAD.size + sum(sizes):
        raise TokenArraysError("the token arrays are not as long as they say")
    found, start = [], _HEAD.size
    for (kind, number), size in zip(kinds, sizes, strict=True):
        found.append(_whole(raw[start : start + size], kind, number))
        start += size
    if int(found[0].sum(dtype=np.uint64)) != count:
        raise TokenArraysError("the turns of the token arrays do not add up to their tokens")
    return TokenArrays(
        turns=tuple(map(int, found[0])),
        ids=found[1].astype(np.uint32),
        lengths=found[2].astype(np.uint16),
        logprobs=found[3].astype(np.float16),
        entropies=None if flags & _NO_ENTROPIES else found[4].astype(np.float16),
        advantages=None if why else found[-1].astype(np.float16),
        unlearned=_REASONS[why - 1] if why else None,
    )


def cut(text: str, lengths: Sequence[int]) -> list[str]:
    """A turn's response in its tokens' pieces; what is left over belongs to the last that has any text."""
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
    """All first bytes, then all second ones, …: alike beside alike, which zlib likes."""
    return values.view(np.uint8).reshape(-1, values.dtype.itemsize).T.tobytes()


def _whole(data: bytes, kind: str, number: int) -> NDArray[Any]:
    width = np.dtype(kind).itemsize
    return np.frombuffer(np.frombuffer(data, np.uint8).reshape(width, number).T.tobytes(), kind)


def _decompress(data: bytes) -> bytes:
    """Never more than `_LONGEST` bytes: a journal may come from anywhere."""
    machine = zlib.decompressobj()
    try:
        raw = machine.decompress(data, _LONGEST)
    except zlib.error:
        raise TokenArraysError("the token arrays are not compressed as they should be") from None
    if not machine.eof:
        raise TokenArraysError("the token arrays are cut off, or too large")
    return raw
