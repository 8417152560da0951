"""Tokens of an attempt, packed as a site reads them (docs/journal.md, "Token arrays"), with the standard library."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

KINDS = ("template", "system", "task", "observation", "response", "other")
MAX_TOKENS = 200_000
"""Maximum number of tokens of an attempt that a site stores."""
MAX_TEXT = 1_000_000
"""Maximum length of their text, characters."""
MAX_PACKED = 1_000_000
"""Maximum length of packed tokens, characters: sites read lines of at most 1 MiB."""
_VERSION, _NOT_SENT = 2, 5
_WIDE, _REASON, _NO_ENTROPIES, _CONTEXT, _UPDATE = 1, 1, 16, 32, 64
_NO_LOGPROBS = 1
_SAMPLED, _IN_LOSS, _RESTARTS, _HAS_KIND = 1, 2, 4, 8
_LARGEST = 65_504.0  # half precision
_STEPS = 4096  # differences are rounded to this fraction of a nat
_MAX_TURN = 65_535
_MAX_LOG_RATIO = 20.0  # keeps its exponential finite


@dataclass(frozen=True)
class TokenColumns:
    """All tokens of an attempt in the order in which the policy read or wrote them, as parallel columns.

    Columns of numbers are read where the token was sampled; None is an unknown column.

    Attributes:
        ids, texts: of each token.
        sampled, in_loss: the policy sampled it; the loss of the update contained it.
        restarts: the policy read it as the first token of another context.
        kinds: what it belongs to, of `KINDS`.
        turns: the turn whose prompt or response it is part of, counted from 0.
        logprobs, trainer_logprobs: log-probability in sampler and trainer, nats.
        ratios: importance ratio.
        entropies: of the distribution that it was sampled from, nats.
        advantages: factor of its ratio in the update.
    """

    ids: Sequence[int]
    texts: Sequence[str]
    sampled: Sequence[bool]
    in_loss: Sequence[bool]
    restarts: Sequence[bool]
    kinds: Sequence[str]
    turns: Sequence[int]
    logprobs: Sequence[float] | None = None
    trainer_logprobs: Sequence[float] | None = None
    ratios: Sequence[float] | None = None
    entropies: Sequence[float] | None = None
    advantages: Sequence[float] | None = None
    places: list[int] = field(init=False, repr=False)  # of the sampled tokens

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", [place for place, sampled in enumerate(self.sampled) if sampled])

    def chosen(self, values: Sequence[float]) -> list[float]:
        """Return the numbers of the sampled tokens."""
        return [values[place] for place in self.places]

    def differences(self) -> list[float] | None:
        """Return the trainer's minus the sampler's log-probabilities of the sampled tokens; None where unknown."""
        if self.logprobs is None or self.trainer_logprobs is None:
            return None
        return [self.trainer_logprobs[place] - self.logprobs[place] for place in self.places]

    def mismatch(self) -> float | None:
        """Return the mean absolute difference, nats; None where unknown."""
        return self._mean(abs)

    def k3(self) -> float | None:
        """Return the mean k3 estimate of the divergence of sampler and trainer, nats a token; None where unknown."""
        return self._mean(lambda difference: math.expm1(min(difference, _MAX_LOG_RATIO)) - difference)

    def wrong(self) -> bool:
        """Return True if the loss contains a token that was not sampled, or a prompt begins with the same token twice.

        Sampled tokens that the loss lacks may be left out on purpose.
        """
        masked = any(in_loss and not sampled for in_loss, sampled in zip(self.in_loss, self.sampled, strict=True))
        starts = [0, *(place for place, restarts in enumerate(self.restarts) if restarts)]
        return masked or any(self.ids[start : start + 1] == self.ids[start + 1 : start + 2] for start in starts)

    def _mean(self, of: Callable[[float], float]) -> float | None:
        finite = [of(value) for value in self.differences() or () if math.isfinite(value)]
        return max(0.0, sum(finite) / len(finite)) if finite else None


def turns_of(sampled: Sequence[bool]) -> list[int]:
    """Return the turn of each token, if responses are sampled without gaps; what follows the last one belongs to it."""
    turns, turn, last = [], 0, False
    final = max((place for place, is_sampled in enumerate(sampled) if is_sampled), default=0)
    for place, is_sampled in enumerate(sampled):
        if last and not is_sampled and place < final:
            turn += 1
        last = bool(is_sampled)
        turns.append(turn)
    return turns


def pack(columns: TokenColumns) -> str:
    """Return the text of the journal."""
    wide = max(columns.ids, default=0) > 65_535
    differences = columns.differences()
    ratios = columns.ratios
    flags = (_WIDE if wide else 0) | _CONTEXT | (_NO_ENTROPIES if columns.entropies is None else 0)
    flags |= (_NOT_SENT << _REASON if columns.advantages is None else 0) | (0 if differences is None else _UPDATE)
    segments = _segments(columns)
    text = "".join(columns.texts).encode("utf-8", "replace")
    read = [place for place, sampled in enumerate(columns.sampled) if not sampled]
    ids = "I" if wide else "H"
    count = max(columns.turns, default=-1) + 1
    per_turn = [0] * count
    for place in columns.places:
        per_turn[columns.turns[place]] += 1
    parts = [
        struct.pack("<BBHI", _VERSION, flags, count, len(columns.places)),
        struct.pack("<BIII", _NO_LOGPROBS if columns.logprobs is None else 0, len(segments), len(read), len(text)),
        _planes("I", per_turn),
        _planes(ids, [columns.ids[place] for place in columns.places]),
        _planes("H", [_length(columns.texts[place]) for place in columns.places]),
    ]
    for values in (columns.logprobs, columns.entropies, columns.advantages):
        parts += [] if values is None else [_halves(columns.chosen(values))]
    parts += [
        bytes(bits for bits, _, _ in segments),
        _planes("H", [turn for _, turn, _ in segments]),
        _planes("I", [tokens for _, _, tokens in segments]),
        _planes(ids, [columns.ids[place] for place in read]),
        _planes("H", [_length(columns.texts[place]) for place in read]),
        text,
    ]
    if differences is not None:
        logs = differences if ratios is None else [_log(value) for value in columns.chosen(ratios)]
        nothing_clipped = bytes(-(-len(columns.places) // 8))
        parts += [_halves(_rounded(differences)), _halves(_rounded(logs)), nothing_clipped]
    return base64.b64encode(zlib.compress(b"".join(parts), 6)).decode()


def _segments(columns: TokenColumns) -> list[tuple[int, int, int]]:
    """Return bits, turn and number of tokens of each run of tokens that differ in nothing else."""

    def key(place: int) -> tuple[int, int]:
        kind = columns.kinds[place]
        bits = (KINDS.index(kind) if kind in KINDS else len(KINDS) - 1) * _HAS_KIND
        bits |= (_SAMPLED if columns.sampled[place] else 0) | (_IN_LOSS if columns.in_loss[place] else 0)
        return bits, min(columns.turns[place], _MAX_TURN)

    found: list[tuple[int, int, int]] = []
    for (bits, turn), group in groupby(range(len(columns.ids)), key):
        size = 0
        for place in group:
            if columns.restarts[place] and size:
                found.append((bits | (_RESTARTS if columns.restarts[place - size] else 0), turn, size))
                size = 0
            size += 1
            last = place
        found.append((bits | (_RESTARTS if columns.restarts[last - size + 1] else 0), turn, size))
    return found


def _length(text: str) -> int:
    return min(len(text), 65_535)


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -_LARGEST


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value * _STEPS) / _STEPS if math.isfinite(value) else value for value in values]


def _halves(values: Sequence[float]) -> bytes:
    finite = [0.0 if math.isnan(value) else max(-_LARGEST, min(_LARGEST, value)) for value in values]
    return _planes("e", finite)


def _planes(kind: str, values: Sequence[float]) -> bytes:
    """Pack numbers with the first bytes of all of them first, then the second ones, and so on."""
    raw = struct.pack(f"<{len(values)}{kind}", *values)
    width = struct.calcsize(f"<{kind}")
    return b"".join(raw[byte::width] for byte in range(width))
