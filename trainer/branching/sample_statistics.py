"""Estimates from samples, as pure functions: shares solved, falls of the value, distances between distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from trainer.journal.branches import Influences, Share, Thought, TurnInfluence, TurnValue, Values
from trainer.metrics.statistics import mean, wilson_interval


def share_of(outcomes: Sequence[bool]) -> Share:
    """Return the share of solved outcomes, with its interval."""
    solved, samples = sum(outcomes), len(outcomes)
    low, high = wilson_interval(solved, samples)
    return Share(solved=solved, samples=samples, share=solved / samples if samples else 0.0, low=low, high=high)


def values_of(outcomes: Sequence[Sequence[bool]], success: bool | None) -> Values:
    """Return the value by play, from the outcomes of the continuations of every turn.

    Args:
        success: whether the attempt itself was solved; None: it has no end, so that its last turn lost nothing.
    """
    shares = [share_of(turn) for turn in outcomes]
    after = [share.share for share in shares[1:]]
    after += [] if not shares else [shares[-1].share if success is None else float(success)]
    turns = [
        TurnValue(turn=turn, solved=share, fall=share.share - following)
        for turn, (share, following) in enumerate(zip(shares, after, strict=True))
    ]
    steepest = max(turns, key=lambda value: value.fall, default=None)
    decisive = steepest.turn if steepest and steepest.fall > 0 else None
    return Values(turns=turns, outcome=success, decisive=decisive)


def total_variation(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the total variation distance of two empirical distributions, each with at least one sample."""
    ours, theirs = sum(one.values()), sum(other.values())
    keys = one.keys() | other.keys()
    return sum(abs(one.get(key, 0) / ours - other.get(key, 0) / theirs) for key in keys) / 2


def influence_of(
    turn: int,
    actions: Mapping[Thought, Sequence[str]],
    texts: Mapping[Thought, str],
    claims: tuple[int, int] = (0, 0),
) -> TurnInfluence:
    """Return the influence of a thought on the next actions.

    Args:
        actions: thought → actions of each sample; the own thought is one of them.
        texts: thought → its text, for the other one and the one with false claims.
        claims: claims in the own thought, and those that remain true in the one with false claims.
    """
    counts = {thought: Counter(samples) for thought, samples in actions.items() if samples}
    own = counts.get("own")
    distances = (
        {}
        if own is None
        else {thought: total_variation(own, other) for thought, other in counts.items() if thought != "own"}
    )
    return TurnInfluence(
        turn=turn,
        actions={thought: dict(counted) for thought, counted in counts.items()},
        distances=distances,
        influence=max((distances[thought] for thought in ("none", "other") if thought in distances), default=None),
        follows_false_claims=distances.get("false"),
        other=texts.get("other"),
        false=texts.get("false"),
        claims=claims[0],
        kept_claims=claims[1],
    )


def influences_of(turns: Sequence[TurnInfluence]) -> Influences:
    """Return the influence of an attempt's thoughts: means over its turns."""
    return Influences(
        turns=list(turns),
        influence=mean(turn.influence for turn in turns if turn.influence is not None),
        follows_false_claims=mean(turn.follows_false_claims for turn in turns if turn.follows_false_claims is not None),
    )
