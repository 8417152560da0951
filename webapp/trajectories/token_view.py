"""Data of the token view: text and numbers of each token, or the reason why they are missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainer.journal import token_arrays
from trainer.journal.token_arrays import MAX_TOKENS, TokenArraysError
from webapp.trajectories.models import TokenArrays, Trajectory
from webapp.trajectories.turn_text import folded_parts

SETTING = "journal.tokens"
UNLEARNED = {
    "evaluation": "No advantages: evaluations are not used for learning.",
    "dropped": "No advantages: the filter dropped this group.",
    "broken": "No advantages: the attempt ended with an environment error.",
    "no_update": "No advantages: no group of this iteration had a signal, so there was no update.",
    "not_sent": "No advantages: the trainer of this run sent none.",
}
NO_ENTROPIES = (
    "No entropies: hosted model endpoints do not return them. The token ids are Echoscope's, not the model's."
)

COMPUTED = (
    "Not recorded, but computed from the weights after iteration {}, with ids from the recorded text. The page of "
    "everything read and written says more."
)


def get_token_data(trajectory: Trajectory) -> dict[str, Any]:
    """Return the data of the token view:

    turns       [{turn, tokens: [{text, id, p, logprob, entropy, advantage}]}]; numbers are null where unknown
    note        reason for missing tokens, entropies or advantages; "" if complete
    """
    stored = TokenArrays.objects.filter(trajectory=trajectory).values_list("data", "computed_from").first()
    if stored is None:
        return {"turns": [], "note": missing_reason(trajectory)}
    packed, computed_from = stored
    try:
        if reason := too_many(bytes(packed)):
            return {"turns": [], "note": reason}
        arrays = token_arrays.unpack(bytes(packed))
    except TokenArraysError as error:
        return {"turns": [], "note": f"The journal's tokens of this attempt cannot be read: {error}."}
    responses = list(trajectory.turns.order_by("number").values_list("event__response", flat=True))
    return {
        "turns": _turns(arrays, [str(response or "") for response in responses]),
        "note": " ".join(unlearned_note(arrays)) if computed_from is None else COMPUTED.format(computed_from),
    }


def count_folded(trajectory: Trajectory, data: dict[str, Any]) -> dict[str, Any]:
    """Set `folded_tokens` of the turns in the player's data: the number of tokens in each folded part of a response.

    Turns without folded parts, and trajectories without token data, are not changed. Returns the data.
    """
    turns = data["turns"] if trajectory.run.recorded is None else []
    parts = {number: folded for number, turn in enumerate(turns) if (folded := folded_parts(turn))}
    packed = TokenArrays.objects.filter(trajectory=trajectory).values_list("data", flat=True).first() if parts else None
    if packed is None:
        return data
    try:
        if too_many(bytes(packed)):
            return data
        arrays = token_arrays.unpack(bytes(packed))
    except TokenArraysError:
        return data  # the token view says so
    start = 0
    for number, count in enumerate(arrays.turns):
        lengths = arrays.lengths[start : start + count].astype(np.int64)
        start += count
        ends = np.cumsum(lengths)
        begins = ends - lengths
        if number in parts:
            turns[number]["folded_tokens"] = [
                int(((begins < part.end) & ((ends > part.start) | (begins >= part.start))).sum())
                for part in parts[number]
            ]
    return data


def too_many(packed: bytes) -> str:
    """Return a sentence if an attempt has more tokens than are shown; otherwise "". Raises TokenArraysError."""
    count = token_arrays.count(packed)
    return f"This attempt has {count:,} tokens; at most {MAX_TOKENS:,} are shown." if count > MAX_TOKENS else ""


def unlearned_note(arrays: token_arrays.TokenArrays) -> list[str]:
    """Return sentences about missing entropies and advantages."""
    notes = []
    if arrays.entropies is None and arrays.context is None:
        notes.append(NO_ENTROPIES)
    if arrays.unlearned:
        notes.append(UNLEARNED[arrays.unlearned])
    return notes


def _turns(arrays: token_arrays.TokenArrays, responses: list[str]) -> list[dict[str, Any]]:
    turns, start = [], 0
    for turn, (count, response) in enumerate(zip(arrays.turns, responses, strict=False)):
        part = slice(start, start + count)
        start += count
        nothing = [None] * count
        logprobs = nothing if arrays.logprobs is None else arrays.logprobs[part].tolist()
        entropies = nothing if arrays.entropies is None else arrays.entropies[part].tolist()
        advantages = nothing if arrays.advantages is None else arrays.advantages[part].tolist()
        turns.append(
            {
                "turn": turn,
                "tokens": [
                    {
                        "text": text,
                        "id": number,
                        "p": None if logprob is None else _rounded(math.exp(logprob)),
                        "logprob": None if logprob is None else _rounded(logprob),
                        "entropy": None if entropy is None else _rounded(entropy),
                        "advantage": None if advantage is None else _rounded(advantage),
                    }
                    for text, number, logprob, entropy, advantage in zip(
                        token_arrays.cut(response, arrays.lengths[part].tolist()),
                        arrays.ids[part].tolist(),
                        logprobs,
                        entropies,
                        advantages,
                        strict=True,
                    )
                ],
            }
        )
    return turns


def _rounded(value: float) -> float:
    """Return the value rounded to four significant digits, the precision of half floats."""
    return float(f"{value:.4g}")


def missing_reason(trajectory: Trajectory) -> str:
    """Return the reason why a trajectory has no token data, and a remedy."""
    if trajectory.run.recorded is not None:
        return "The trainer of this run recorded no tokens."
    keep = trajectory.run.config.get("journal", {}).get("tokens")
    if keep is None:
        return "This run was recorded by a version that stored no tokens. New runs store them."
    if keep == "none":
        return f"This run stores no tokens: {SETTING} is none. Launch it with {SETTING} = all to see them."
    if trajectory.run.config.get("hosted", {}).get("url") and trajectory.finished_seq is not None:
        return "The endpoint of this hosted model returned no log-probabilities of its tokens."
    if trajectory.finished_seq is None:
        return "The tokens are stored when the attempt has ended and, in training, its iteration's update is done."
    if keep == "kept" and trajectory.split == "train" and trajectory.group.kept is False:
        return (
            f"This run stores only tokens of evaluations and of groups kept by the filter: {SETTING} is kept, and the "
            f"filter dropped this group. Launch it with {SETTING} = all to see every attempt's tokens."
        )
    if trajectory.split == "train" and trajectory.group.kept is None:
        return "The tokens are stored when this iteration's update is done. Reload in a moment."
    return "The journal has no tokens of this attempt: it was interrupted, or its update never finished."
