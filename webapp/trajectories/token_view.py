"""Data of the token view: text and numbers of each token, or the reason why they are missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainer.journal import token_arrays
from trainer.journal.token_arrays import TokenArraysError
from webapp.trajectories.models import TokenArrays, Trajectory
from webapp.trajectories.turn_text import folded_parts

SETTING = "journal.tokens"
MAX_TOKENS = 200_000
"""Maximum number of tokens of a trajectory that are sent to a browser, about 90 bytes each."""
UNLEARNED = {
    "evaluation": "No advantages: evaluations are not used for learning.",
    "dropped": "No advantages: the filter dropped this group.",
    "broken": "No advantages: the attempt ended with an environment error.",
    "no_update": "No advantages: no group of this iteration had a signal, so there was no update.",
}
NO_ENTROPIES = (
    "No entropies: hosted model endpoints do not return them. The token ids are Echoscope's, not the model's."
)


def get_token_data(trajectory: Trajectory) -> dict[str, Any]:
    """Return the data of the token view:

    turns       [{turn, tokens: [{text, id, p, logprob, entropy, advantage}]}]; entropy, advantage null where unknown
    note        reason for missing tokens, entropies or advantages; "" if complete
    """
    packed = TokenArrays.objects.filter(trajectory=trajectory).values_list("data", flat=True).first()
    if packed is None:
        return {"turns": [], "note": missing_reason(trajectory)}
    try:
        if (count := token_arrays.count(bytes(packed))) > MAX_TOKENS:
            return {"turns": [], "note": f"This attempt has {count:,} tokens; at most {MAX_TOKENS:,} are shown."}
        arrays = token_arrays.unpack(bytes(packed))
    except TokenArraysError as error:
        return {"turns": [], "note": f"The journal's tokens of this attempt cannot be read: {error}."}
    responses = list(trajectory.turns.order_by("number").values_list("event__response", flat=True))
    return {
        "turns": _turns(arrays, [str(response or "") for response in responses]),
        "note": " ".join(_missing(arrays)),
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
        if token_arrays.count(bytes(packed)) > MAX_TOKENS:
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


def _missing(arrays: token_arrays.TokenArrays) -> Iterator[str]:
    if arrays.entropies is None:
        yield NO_ENTROPIES
    if arrays.unlearned:
        yield UNLEARNED[arrays.unlearned]


def _turns(arrays: token_arrays.TokenArrays, responses: list[str]) -> list[dict[str, Any]]:
    turns, start = [], 0
    for turn, (count, response) in enumerate(zip(arrays.turns, responses, strict=False)):
        part = slice(start, start + count)
        start += count
        nothing = [None] * count
        entropies = nothing if arrays.entropies is None else arrays.entropies[part].tolist()
        advantages = nothing if arrays.advantages is None else arrays.advantages[part].tolist()
        turns.append(
            {
                "turn": turn,
                "tokens": [
                    {
                        "text": text,
                        "id": number,
                        "p": _rounded(math.exp(logprob)),
                        "logprob": _rounded(logprob),
                        "entropy": None if entropy is None else _rounded(entropy),
                        "advantage": None if advantage is None else _rounded(advantage),
                    }
                    for text, number, logprob, entropy, advantage in zip(
                        token_arrays.cut(response, arrays.lengths[part].tolist()),
                        arrays.ids[part].tolist(),
                        arrays.logprobs[part].tolist(),
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
