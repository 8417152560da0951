"""Checks of an attempt's tokens: what is in the loss or in the prompt that should not be, and what is missing there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from webapp.trajectories.reading import Reading

MAX_MEAN_DIFFERENCE = 0.1
"""Mean absolute difference of log-probabilities, nats, above which sampler and trainer are not the same policy: with
the same weights, two engines in bfloat16 differ by a few hundredths at most."""
_RECOGNISED = 2
"""Number of a response's last tokens, end token included, by which a later prompt must have it to be recognised."""
_QUOTED = 40  # characters
_STEP = 1 / 4096  # nats, of recorded differences


@dataclass(frozen=True)
class TokenCheck:
    """Something that looks wrong, as a sentence, and the position of the first token concerned."""

    sentence: str
    position: int


def token_checks(reading: Reading) -> list[TokenCheck]:
    """Return what looks wrong about an attempt's tokens, most severe first."""
    checks = (_loss_mask, _repeated_start, _changed_history, _difference)
    return [found for check in checks for found in check(reading)]


def passed_checks(reading: Reading) -> str:
    """Return a sentence about what was checked, for an attempt in which nothing looks wrong."""
    checked = ["no prompt begins with the same token twice"]
    if any(segment.restarts for segment in reading.segments):
        checked.append("later prompts have the earlier responses as they were sampled")
    if reading.in_loss.any():
        checked.insert(0, "the loss has exactly the sampled tokens")
    if not np.isnan(reading.differences).all():
        checked.append("sampler and trainer agree")
    return f"Nothing looks wrong: {', '.join(checked[:-1])}{' and ' if checked[1:] else ''}{checked[-1]}."


def token_facts(reading: Reading) -> list[tuple[str, str]]:
    """Return names and values of what the tokens say together: their number by kind, mismatch, clipping."""
    facts = []
    for name, tokens, in_loss in reading.counts():
        learned = f", {in_loss:,} in the loss" if reading.in_loss.any() else ""
        facts.append((name, f"{_tokens(tokens)}{learned}"))
    differences = np.abs(reading.differences[~np.isnan(reading.differences)])
    if differences.size:
        high = float(np.quantile(differences, 0.99))
        words = f"{_nats(differences.mean())} nats on average, {_nats(high)} at the 99th percentile"
        facts.append(("Trainer and sampler differ by", words))
    if reading.clipped.any():
        facts.append(("Clipped", _tokens(int(reading.clipped.sum()))))
    if reading.retokenised.any():
        facts.append(("Other tokens when encoded again", _tokens(int(reading.retokenised.sum()))))
    contexts = len(_contexts(reading))
    if contexts > 1:
        facts.append(("Read from an empty context", f"{contexts} times"))
    return facts


def _loss_mask(reading: Reading) -> Iterator[TokenCheck]:
    if not reading.in_loss.any():
        return
    foreign, missing = reading.in_loss & ~reading.sampled, reading.sampled & ~reading.in_loss
    for shift, side in ((-1, "left"), (1, "right")):
        if foreign.any() and np.array_equal(_shifted(reading.sampled, shift), reading.in_loss):
            yield TokenCheck(
                f"The loss mask is shifted by one token to the {side}: it has {_names(reading, foreign)}, which the "
                f"policy did not sample, but not {_names(reading, missing)}.",
                int(np.argmax(foreign)),
            )
            return
    if foreign.any():
        number = int(foreign.sum())
        yield TokenCheck(
            f"{_tokens(number)} in the loss {'was' if number == 1 else 'were'} not sampled by the policy: "
            f"{_names(reading, foreign)}.",
            int(np.argmax(foreign)),
        )
    if missing.any():
        number = int(missing.sum())
        yield TokenCheck(
            f"{_tokens(number)} that the policy sampled {'is' if number == 1 else 'are'} not in the loss: "
            f"{_names(reading, missing)}.",
            int(np.argmax(missing)),
        )


def _repeated_start(reading: Reading) -> Iterator[TokenCheck]:
    for start, end in _contexts(reading):
        if end - start > 1 and reading.ids[start] == reading.ids[start + 1]:
            yield TokenCheck(
                f"The prompt begins with the same token twice: {_quoted(reading.texts[start])}, id "
                f"{reading.ids[start]}. Often the template writes it and the tokenizer adds another.",
                start + 1,
            )
            return


def _changed_history(reading: Reading) -> Iterator[TokenCheck]:
    """Find responses of which a later prompt has only the end, as templates do that drop the thoughts of earlier turns.

    Responses are looked for from the newest to the oldest, each before the next. A response of which a prompt has
    nothing lies before the context window, like all older ones.
    """
    responses = sorted(_responses(reading).items(), reverse=True)
    for start, end in _contexts(reading)[1:]:
        before = reading.ids[start:end]
        for turn, (first, last) in responses:
            ids = reading.ids[first:last]
            if last > start:
                continue
            whole = _last_place(before, ids)
            place = _last_place(before, ids[:-1]) if whole is None else whole  # a response may lack its end token
            if place is not None:
                before = before[:place]
                continue
            kept = 1
            while _last_place(before, ids[-kept - 1 :]) is not None:
                kept += 1
            if kept < _RECOGNISED:
                break
            dropped = reading.texts[first : last - kept]
            yield TokenCheck(
                f"A later prompt has the response of turn {turn + 1} without its first {_tokens(len(dropped))}, "
                f"{_quoted(''.join(dropped))}: the policy reads another history than it wrote. Chat templates of "
                "reasoning models drop earlier thoughts.",
                start,
            )
            return


def _difference(reading: Reading) -> Iterator[TokenCheck]:
    differences = np.abs(reading.differences)
    if np.isnan(differences).all():
        return
    mean, worst = float(np.nanmean(differences)), int(np.nanargmax(differences))
    if mean > MAX_MEAN_DIFFERENCE:
        yield TokenCheck(
            f"Sampler and trainer are not the same policy: their log-probabilities differ by {mean:.2g} nats on "
            f"average, most at {_quoted(reading.texts[worst])} ({float(differences[worst]):.2g}). Usual causes are old "
            "weights in the sampler, another temperature, or a prompt that was encoded again.",
            worst,
        )


def _contexts(reading: Reading) -> list[tuple[int, int]]:
    """Return start and end of each part that the policy read from an empty context."""
    places = zip(reading.segments, reading.starts(), strict=True)
    starts = sorted({0, *(start for segment, start in places if segment.restarts)})
    return list(pairwise([*starts, len(reading.ids)]))


def _responses(reading: Reading) -> dict[int, tuple[int, int]]:
    """Return the positions of each turn's first sampled token and of the end after its last one."""
    found: dict[int, tuple[int, int]] = {}
    for segment, start in zip(reading.segments, reading.starts(), strict=True):
        if segment.sampled:
            first = found.get(segment.turn, (start, start))[0]
            found[segment.turn] = (first, start + segment.tokens)
    return found


def _last_place(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> int | None:
    """Return the last position of `wanted` in `ids`; None if it is not there, or empty."""
    if not 0 < len(wanted) <= len(ids):
        return None
    for at in np.flatnonzero(ids[: len(ids) - len(wanted) + 1] == wanted[0])[::-1]:
        if np.array_equal(ids[at : at + len(wanted)], wanted):
            return int(at)
    return None


def _shifted(mask: NDArray[np.bool_], by: int) -> NDArray[np.bool_]:
    shifted = np.roll(mask, by)
    shifted[-1 if by < 0 else 0] = False
    return shifted


def _nats(value: float) -> str:
    """Return a difference in words: it is recorded in steps."""
    return f"{value:.2g}" if value >= _STEP else f"less than {_STEP:.1g}"


def _tokens(number: int) -> str:
    return f"{number:,} token{'' if number == 1 else 's'}"


def _names(reading: Reading, chosen: NDArray[np.bool_]) -> str:
    """Quote the first three different texts of the chosen tokens."""
    texts: Sequence[str] = list(dict.fromkeys(reading.texts[place] for place in np.flatnonzero(chosen)))
    return ", ".join(_quoted(text) for text in texts[:3]) + (" and others" if len(texts) > 3 else "")


def _quoted(text: str) -> str:
    shown = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
    return f"“{shown}”" if shown else "a token without text"
