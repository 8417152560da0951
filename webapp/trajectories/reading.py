"""Everything that a policy read and wrote in an attempt, token by token, with the values that were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.journal import token_arrays
from trainer.journal.token_arrays import Segment, TokenArraysError, TokenKind
from webapp.trajectories.models import TokenArrays, Trajectory
from webapp.trajectories.token_view import missing_reason, too_many, unlearned_note

KIND_NAMES: dict[TokenKind, str] = {
    "template": "Template",
    "system": "System message",
    "task": "Task",
    "observation": "Observation",
    "response": "Response",
    "other": "Prompt",
}
LEGEND = {"sampled": "Sampled"} | KIND_NAMES | {"response": "Earlier response"}
"""Names of the kinds in the page's legend; sampled tokens have a colour of their own."""
Frame = tuple[str, str]
"""Text of the chat template before and after a message."""


@dataclass(frozen=True)
class Computed:
    """How tokens that were not recorded were computed.

    Attributes:
        checkpoint: finished iterations of the weights.
        differing: turn, number of sampled tokens, and number of tokens of the text, where these differ.
        sampler_logprob: the sampler's mean log-probability of the responses, as the turns have it; None if unknown.
    """

    checkpoint: int
    differing: tuple[tuple[int, int, int], ...]
    sampler_logprob: float | None


@dataclass(frozen=True)
class Reading:
    """The N tokens of an attempt in reading order, as parallel arrays; NaN where a value is unknown.

    Attributes:
        segments: adjacent tokens of one kind.
        texts, ids: of each token. The text of a token that ends inside a character is empty.
        sampled, in_loss: the policy sampled the token; the loss of the update contained it.
        logprobs: the sampler's log-probability, nats; of computed tokens, under the checkpoint's weights.
        differences: the trainer's minus the sampler's log-probability, nats.
        ratios: importance ratio in the last optimiser step.
        entropies: of the sampler's distribution, nats.
        advantages: factor of the ratio in the update.
        shares: share of the attempt's loss: |ratio · advantage| of the token, 0 if it was clipped or is not in the
            loss, by their sum.
        clipped, retokenised: a bound cut off the gradient; the text has another token here when it is encoded again.
        trained: whether the update used the attempt; None if another trainer did not say so.
        notes: what is missing and why.
        computed: how they were computed; None if they were recorded.
    """

    segments: tuple[Segment, ...]
    texts: list[str]
    ids: NDArray[np.int64]
    sampled: NDArray[np.bool_]
    in_loss: NDArray[np.bool_]
    logprobs: NDArray[np.float64]
    differences: NDArray[np.float64]
    ratios: NDArray[np.float64]
    entropies: NDArray[np.float64]
    advantages: NDArray[np.float64]
    shares: NDArray[np.float64]
    clipped: NDArray[np.bool_]
    retokenised: NDArray[np.bool_]
    trained: bool | None
    notes: list[str]
    computed: Computed | None = None

    def starts(self) -> list[int]:
        """Return the position of the first token of each segment."""
        sizes = [segment.tokens for segment in self.segments]
        return (np.cumsum(sizes) - sizes).tolist() if sizes else []

    def columns(self) -> dict[str, Any]:
        """Return the data of the token page; numbers that are unknown for every token are left out."""
        places = zip(self.segments, self.starts(), strict=True)
        numbers = {
            "logprob": self.logprobs,
            "difference": self.differences,
            "ratio": self.ratios,
            "entropy": self.entropies,
            "advantage": self.advantages,
            "share": self.shares,
        }
        return {
            "segments": [
                {
                    "kind": segment.kind,
                    "name": KIND_NAMES[segment.kind],
                    "turn": segment.turn,
                    "start": start,
                    "tokens": segment.tokens,
                    "sampled": segment.sampled,
                    "in_loss": segment.in_loss,
                    "restarts": segment.restarts,
                }
                for segment, start in places
            ],
            "texts": self.texts,
            "ids": self.ids.tolist(),
            **{name: _short(values) for name, values in numbers.items() if not np.isnan(values).all()},
            **({"computed_from": self.computed.checkpoint} if self.computed else {}),
            "clipped": np.flatnonzero(self.clipped).tolist(),
            "retokenised": np.flatnonzero(self.retokenised).tolist(),
        }

    def kinds(self) -> set[str]:
        """Return the kinds that occur, as in `LEGEND`."""
        return {"sampled" if segment.sampled else segment.kind for segment in self.segments}

    def counts(self) -> list[tuple[str, int, int]]:
        """Return name, tokens and tokens in the loss of each kind, in the order of first appearance."""
        order = dict.fromkeys((segment.kind, segment.sampled) for segment in self.segments)
        found = []
        for kind, sampled in order:
            own = [segment for segment in self.segments if (segment.kind, segment.sampled) == (kind, sampled)]
            in_loss = sum(segment.tokens for segment in own if segment.in_loss)
            found.append((LEGEND["sampled" if sampled else kind], sum(segment.tokens for segment in own), in_loss))
        return found


def get_reading(trajectory: Trajectory) -> Reading | str:
    """Return the tokens of an attempt, or the reason why there are none."""
    stored = TokenArrays.objects.filter(trajectory=trajectory).values_list("data", "computed_from").first()
    if stored is None:
        return missing_reason(trajectory)
    packed, computed_from = stored
    try:
        if reason := too_many(bytes(packed)):
            return reason
        arrays = token_arrays.unpack(bytes(packed))
    except TokenArraysError as error:
        return f"The journal's tokens of this attempt cannot be read: {error}."
    events = list(trajectory.turns.order_by("number").values_list("event", flat=True))
    return read(arrays, events, trajectory.group.prompt, computed_from)


def read(
    arrays: token_arrays.TokenArrays, turns: Sequence[dict[str, Any]], task: str, computed_from: int | None = None
) -> Reading:
    """Return the tokens of an attempt.

    Args:
        turns: events of its turns.
        task: text before the first state.
        computed_from: finished iterations of the weights from which they were computed; None if they were recorded.
    """
    context = arrays.context
    computed = None if computed_from is None else _computed(arrays, turns, computed_from)
    notes = unlearned_note(arrays) if computed is None else []
    if context is None:
        notes.insert(0, "What the policy read is not recorded as tokens: only its responses are shown.")
        learned = arrays.advantages is not None
        segments = tuple(
            Segment("response", turn, tokens, sampled=True, in_loss=learned)
            for turn, tokens in enumerate(arrays.turns)
            if tokens
        )
        read_ids, read_lengths = np.zeros(0, np.int64), np.zeros(0, np.int64)
    else:
        segments = context.segments
        read_ids, read_lengths = context.ids.astype(np.int64), context.lengths.astype(np.int64)
    sizes = [segment.tokens for segment in segments]
    sampled = np.repeat([segment.sampled for segment in segments], sizes).astype(np.bool_)
    ids, lengths = np.zeros(len(sampled), np.int64), np.zeros(len(sampled), np.int64)
    ids[sampled], ids[~sampled] = arrays.ids, read_ids
    lengths[sampled], lengths[~sampled] = arrays.lengths, read_lengths
    if context is None or context.text is None:
        texts = list(_texts(segments, lengths.tolist(), turns, task))
    else:
        texts = token_arrays.cut(context.text, lengths.tolist())

    def spread(values: Any | None, read_values: Any | None = None) -> NDArray[np.float64]:
        column = np.full(len(sampled), np.nan)
        for mask, known in ((sampled, values), (~sampled, read_values)):
            if known is not None:
                column[mask] = known.astype(np.float64)
        return column

    def marked(values: Any | None) -> NDArray[np.bool_]:
        column = np.zeros(len(sampled), np.bool_)
        if values is not None:
            column[sampled] = values
        return column

    updates = arrays.updates
    ratios = np.exp(spread(updates.log_ratios if updates else None))
    advantages, clipped = spread(arrays.advantages), marked(updates.clipped if updates else None)
    in_loss = np.repeat([segment.in_loss for segment in segments], sizes).astype(np.bool_)
    weights = np.where(clipped | (sampled & ~in_loss), 0.0, np.abs(ratios * advantages))
    total = np.nansum(weights)
    return Reading(
        segments=segments,
        texts=texts,
        ids=ids,
        sampled=sampled,
        in_loss=in_loss,
        logprobs=spread(arrays.logprobs, context and context.logprobs),
        differences=spread(updates.differences if updates else None),
        ratios=ratios,
        entropies=spread(arrays.entropies, context and context.entropies),
        advantages=advantages,
        shares=weights / total if total > 0 else np.full(len(sampled), np.nan),
        clipped=clipped,
        retokenised=marked(arrays.retokenised),
        trained=_trained(arrays) if computed is None else bool(in_loss.any()),
        notes=notes,
        computed=computed,
    )


def _trained(arrays: token_arrays.TokenArrays) -> bool | None:
    return None if arrays.unlearned == "not_sent" else arrays.unlearned is None


def _computed(arrays: token_arrays.TokenArrays, turns: Sequence[dict[str, Any]], checkpoint: int) -> Computed:
    sampled = [event.get("tokens") for event in turns]
    differing = tuple(
        (turn, recorded, tokens)
        for turn, (recorded, tokens) in enumerate(zip(sampled, arrays.turns, strict=False))
        if recorded is not None and recorded != tokens
    )
    known = [(event["logprob"], event["tokens"]) for event in turns if event.get("logprob") and event.get("tokens")]
    total = sum(tokens for _, tokens in known)
    mean = sum(logprob * tokens for logprob, tokens in known) / total if total else None
    return Computed(checkpoint, differing, mean)


def frames(events: Iterable[Mapping[str, Any]]) -> Iterator[Frame]:
    """Yield the template's text around each message, which is repeated for events without it."""
    frame: Frame = ("", "")
    for event in events:
        if (recorded := event.get("frame")) is not None:
            frame = (recorded[0], recorded[1])
        yield frame


def _texts(
    segments: Sequence[Segment], lengths: list[int], turns: Sequence[dict[str, Any]], task: str
) -> Iterator[str]:
    """Yield the text of each token, from the recorded messages and responses of its turn."""
    start = 0
    parts = [(key, list(group)) for key, group in groupby(segments, key=lambda one: (one.turn, one.sampled))]
    messages = {
        number: prefix + (task if number == 0 else "") + str(event.get("state") or "") + suffix
        for number, (event, (prefix, suffix)) in enumerate(zip(turns, frames(turns), strict=True))
    }
    for index, ((turn, sampled), group) in enumerate(parts):
        own = lengths[start : start + sum(segment.tokens for segment in group)]
        start += len(own)
        if sampled:
            pieces = token_arrays.cut(str(turns[turn].get("response") or "") if turn < len(turns) else "", own)
            following = parts[index + 1] if index + 1 < len(parts) else None
            if pieces and not own[-1] and following is not None and not following[0][1]:
                read = sum(lengths[start : start + sum(segment.tokens for segment in following[1])])
                message = messages.get(following[0][0], "")
                pieces[-1] = message[: max(0, len(message) - read)]  # the end token
            yield from pieces
        else:
            message = messages.get(turn, "")
            yield from token_arrays.cut(message[max(0, len(message) - sum(own)) :], own)


def _short(values: NDArray[np.float64]) -> list[float | None]:
    """Return four significant digits, the precision of half floats; None where the value is unknown."""
    return [None if value != value else float(f"{value:.4g}") for value in values.tolist()]
