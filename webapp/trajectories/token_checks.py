"""Checks of an attempt's tokens: what is in the loss or in the prompt that should not be, and what is missing there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

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
class Finding:
    """Something that looks wrong, as a sentence, and the position of the first token concerned."""

    sentence: str
    position: int


@dataclass(frozen=True)
class TokenCheck:
    """Result of a check.

    Attributes:
        title: what was checked.
        findings: what looks wrong; none if the check passed, or was not made.
        passed: what holds, as a sentence; empty if something looks wrong, or the check was not made.
        not_made: why the check was not made, as a sentence; otherwise empty.
        colour: mode of the page that shows it.
    """

    title: str
    findings: tuple[Finding, ...]
    passed: str
    not_made: str
    colour: Literal["loss", "kind", "difference"]


def token_checks(reading: Reading) -> list[TokenCheck]:
    """Return the results of all checks."""
    restarts = len(_contexts(reading)) > 1
    rebuilt = "Mask and history were computed afterwards, by the trainer's rules." if reading.computed else ""
    learned = "The update did not use this attempt." if reading.trained is False else "No loss mask is recorded."
    return [
        _made(
            "Loss mask",
            "The loss covers exactly the sampled tokens.",
            "loss",
            rebuilt or ("" if reading.in_loss.any() else learned),
            lambda: _loss_mask(reading),
        ),
        _made(
            "Start of the prompt",
            "No prompt begins with the same token twice.",
            "kind",
            "" if not reading.sampled.all() else "What the policy read is not recorded.",
            lambda: _repeated_start(reading),
        ),
        _made(
            "History",
            "Later prompts contain the earlier responses as they were sampled."
            if restarts
            else "Each prompt extends the dialogue, so that no response could change.",
            "kind",
            rebuilt or ("" if not reading.sampled.all() else "What the policy read is not recorded."),
            lambda: _changed_history(reading),
        ),
        _made(
            "Sampler and trainer",
            "Their log-probabilities agree.",
            "difference",
            _without_differences(reading),
            lambda: _difference(reading),
        ),
    ]


def _without_differences(reading: Reading) -> str:
    """Return why sampler and trainer are not compared; empty if they are."""
    if not np.isnan(reading.differences).all():
        return ""
    if reading.computed:
        return "The sampler's log-probabilities of single tokens are not recorded."
    return "No log-probabilities of the trainer are recorded."


def first_finding(reading: Reading) -> Finding | None:
    """Return what looks wrong first; None if nothing does."""
    return next((finding for check in token_checks(reading) for finding in check.findings), None)


def _made(
    title: str,
    passed: str,
    colour: Literal["loss", "kind", "difference"],
    not_made: str,
    find: Callable[[], Iterator[Finding]],
) -> TokenCheck:
    findings = () if not_made else tuple(find())
    return TokenCheck(title, findings, "" if findings or not_made else passed, not_made, colour)


def token_facts(reading: Reading) -> list[tuple[str, str]]:
    """Return names and values of what the tokens say together: their number by kind, mismatch, clipping."""
    facts = []
    for name, tokens, in_loss in reading.counts():
        learned = f", {in_loss:,} in the loss" if reading.in_loss.any() else ""
        facts.append((name, f"{_tokens(tokens)}{learned}"))
    differences = np.abs(reading.differences[~np.isnan(reading.differences)])
    if differences.size:
        words = f"{_nats(differences.mean())} nats on average, {_nats(float(np.quantile(differences, 0.99)))} at p99"
        facts.append(("Sampler/trainer difference", words))
    logprobs = reading.logprobs[reading.sampled]
    if reading.computed and not np.isnan(logprobs).all():
        sampler = reading.computed.sampler_logprob
        compared = "" if sampler is None else f", {_signed(sampler)} by the sampler"
        mean = _signed(float(np.nanmean(logprobs)))
        facts.append(("Mean log-probability of the responses", f"{mean} nats{compared}"))
    if reading.clipped.any():
        facts.append(("Clipped", _tokens(int(reading.clipped.sum()))))
    if reading.retokenised.any():
        facts.append(("Re-tokenised differently", _tokens(int(reading.retokenised.sum()))))
    return facts


def _loss_mask(reading: Reading) -> Iterator[Finding]:
    foreign, missing = reading.in_loss & ~reading.sampled, reading.sampled & ~reading.in_loss
    for shift, side in ((-1, "left"), (1, "right")):
        if foreign.any() and np.array_equal(_shifted(reading.sampled, shift), reading.in_loss):
            yield Finding(
                f"The loss mask is shifted by one token to the {side}{_in_turns(reading, foreign)}: it includes "
                f"{_names(reading, foreign)}, which the policy did not sample, but not {_names(reading, missing)}.",
                int(np.argmax(foreign)),
            )
            return
    if foreign.any():
        number = int(foreign.sum())
        yield Finding(
            f"{_tokens(number)} in the loss {'was' if number == 1 else 'were'} not sampled by the policy: "
            f"{_names(reading, foreign)}{_in_turns(reading, foreign)}.",
            int(np.argmax(foreign)),
        )
    if missing.any():
        number = int(missing.sum())
        yield Finding(
            f"{_tokens(number)} that the policy sampled {'is' if number == 1 else 'are'} not in the loss: "
            f"{_names(reading, missing)}{_in_turns(reading, missing)}.",
            int(np.argmax(missing)),
        )


def _repeated_start(reading: Reading) -> Iterator[Finding]:
    for start, end in _contexts(reading):
        if end - start > 1 and reading.ids[start] == reading.ids[start + 1]:
            yield Finding(
                f"The prompt begins with the same token twice: {_quoted(reading.texts[start])}, id "
                f"{reading.ids[start]}. Usually the template writes it and the tokenizer adds another.",
                start + 1,
            )
            return


def _changed_history(reading: Reading) -> Iterator[Finding]:
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
            yield Finding(
                f"A later prompt has the response of turn {turn + 1} without its first {_tokens(len(dropped))}, "
                f"{_quoted(''.join(dropped))}: the policy conditions on a different history from the one it wrote. "
                "Chat templates of reasoning models drop earlier thoughts.",
                start,
            )
            return


def _difference(reading: Reading) -> Iterator[Finding]:
    differences = np.abs(reading.differences)
    mean, worst = float(np.nanmean(differences)), int(np.nanargmax(differences))
    if mean > MAX_MEAN_DIFFERENCE:
        yield Finding(
            f"Sampler and trainer disagree: their log-probabilities differ by {mean:.2g} nats on average, most at "
            f"{_quoted(reading.texts[worst])} ({float(differences[worst]):.2g}). The usual causes are stale weights in "
            "the sampler, a different temperature, or a prompt that was tokenised again.",
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


def _signed(value: float) -> str:
    return f"{value:.3f}".replace("-", "\N{MINUS SIGN}")


def _tokens(number: int) -> str:
    return f"{number:,} token{'' if number == 1 else 's'}"


def _in_turns(reading: Reading, chosen: NDArray[np.bool_]) -> str:
    """Return in which turns the chosen tokens are, if the attempt has several."""
    turns = np.repeat([segment.turn for segment in reading.segments], [segment.tokens for segment in reading.segments])
    found, every = np.unique(turns[chosen]), np.unique(turns)
    if len(every) == 1:
        return ""
    if len(found) == len(every):
        return " in every turn"
    shown = ", ".join(str(turn + 1) for turn in found[:3]) + (" and others" if len(found) > 3 else "")
    return f" in turn{'s' if len(found) > 1 else ''} {shown}"


def _names(reading: Reading, chosen: NDArray[np.bool_]) -> str:
    """Quote the first three different texts of the chosen tokens."""
    texts = list(dict.fromkeys(reading.texts[place] for place in np.flatnonzero(chosen)))
    return ", ".join(_quoted(text) for text in texts[:3]) + (" and others" if len(texts) > 3 else "")


def _quoted(text: str) -> str:
    """Quote a text without the white space around it; of white space only, its name."""
    shown = text.strip()
    if not shown:
        return "white space" if text else "a token without text"
    return f"“{shown if len(shown) <= _QUOTED else f'{shown[:_QUOTED]}…'}”"
