"""Converts the arguments of `Trajectory.tokens` to columns that a site accepts, with a warning for each change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from echoscope.recording.call_values import CallValues
from echoscope.recording.json_values import as_text
from echoscope.recording.token_packing import KINDS, MAX_TEXT, MAX_TOKENS, TokenColumns, turns_of

_MAX_ID = 2**32 - 1
_MAX_TURNS = 1000


class TokenValues:
    """Columns of one call.

    Args:
        ids, sampled: as given to the call.
    """

    def __init__(self, values: CallValues, ids: Any, sampled: Any) -> None:
        self._values = values
        self._ids = _listed(ids)
        self._sampled = _listed(sampled)

    def columns(self, **given: Any) -> TokenColumns | None:
        """Return the columns; None, with a warning, if ids and `sampled` do not describe tokens."""
        if problem := self._problem():
            self._values.warn("ids", f"The tokens of a trajectory are not recorded: {problem}.")
            return None
        ids = [int(token) for token in self._ids]
        sampled = [bool(flag) for flag in self._sampled]
        numbers = {
            name: self._column(name, given[name], _number)
            for name in ("logprobs", "trainer_logprobs", "ratios", "advantages", "entropies")
        }
        texts = self._column("texts", given["texts"], as_text) or [""] * len(ids)
        if (length := sum(map(len, texts))) > MAX_TEXT:
            self._values.warn(
                "texts", f"texts of tokens() have {length:,} characters and are left out: {MAX_TEXT:,} fit."
            )
            texts = [""] * len(ids)
        turns = self._column("turns", given["turns"], int)
        if turns is not None and not all(0 <= turn < _MAX_TURNS for turn in turns):
            self._values.warn("turns", f"turns of tokens() are not all from 0 to {_MAX_TURNS - 1} and are derived.")
            turns = None
        kinds = self._column("kinds", given["kinds"], lambda kind: kind if kind in KINDS else "other")
        restarts = {int(place) for place in _listed(given["restarts"])}
        return TokenColumns(
            ids=ids,
            texts=texts,
            sampled=sampled,
            in_loss=self._column("in_loss", given["in_loss"], bool) or [False] * len(ids),
            restarts=[place in restarts for place in range(len(ids))],
            kinds=kinds or ["response" if flag else "other" for flag in sampled],
            turns=turns or turns_of(sampled),
            **numbers,
        )

    def _problem(self) -> str:
        if len(self._ids) != len(self._sampled):
            return f"there are {len(self._ids):,} ids, and sampled has {len(self._sampled):,} elements"
        if not any(self._sampled):
            return "none of them was sampled"
        if len(self._ids) > MAX_TOKENS:
            return f"there are {len(self._ids):,}, and sites store at most {MAX_TOKENS:,}"
        if not all(0 <= int(token) <= _MAX_ID for token in self._ids):
            return "some ids are not whole numbers from 0 to 4,294,967,295"
        return ""

    def _column(self, name: str, given: Any, convert: Callable[[Any], Any]) -> list[Any] | None:
        """Return a converted column; None if it is unknown, or has another length."""
        if given is None:
            return None
        listed = _listed(given)
        if len(listed) == len(self._ids):
            return [convert(value) for value in listed]
        self._values.warn(
            name,
            f"{name} of tokens() has {len(listed):,} elements for {len(self._ids):,} tokens and is left out: pass one "
            "for each token.",
        )
        return None


def _listed(values: Any) -> Sequence[Any]:
    """Return a list of a sequence, numpy array or tensor."""
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
