"""Signals of the Echo Trap detector: name, meaning, threshold direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX, LIMIT = "echo_trap/", "_limit"


@dataclass(frozen=True)
class Signal:
    """A value derived from each iteration's metrics; `name` and `limit` are the metrics of the value and its limit."""

    key: str
    title: str
    meaning: str
    rule: str
    bad: Literal["below", "from", "above", "beyond"]
    """The bad side of the limit; from: including the limit; beyond: in either direction."""
    unit: Literal["share", "deviations", "times"]

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.key}"

    @property
    def limit(self) -> str:
        return f"{PREFIX}{self.key}{LIMIT}"

    def crossed(self, value: float, limit: float) -> bool:
        """True if the value is on the bad side; some signals have further conditions, see `rule`."""
        match self.bad:
            case "below":
                return value < limit
            case "from":
                return value >= limit
            case "above":
                return value > limit
        return abs(value) > limit


SIGNALS = (
    Signal(
        "spread",
        "Reward spread",
        "Share of the earlier in-group spread that is left, adjusted for what success explains.",
        "Below it, for a third of a window, the trajectories of a group have become alike.",
        "below",
        "share",
    ),
    Signal(
        "entropy",
        "Entropy drift",
        "How far the entropy of the last half window is off its course, in robust deviations of one iteration.",
        "Beyond it in either direction, and a tenth away from its slow average, entropy has left its course.",
        "beyond",
        "deviations",
    ),
    Signal(
        "format",
        "Valid format",
        "Share of the earlier rate of valid turns that is left.",
        "Below it, unless already recovering, the answers are losing their format.",
        "below",
        "share",
    ),
    Signal(
        "template",
        "Thought diversity",
        "Vocabulary variety of thoughts, as a share of their slow average.",
        "Below it the thoughts are turning into one template.",
        "below",
        "share",
    ),
    Signal(
        "gradient",
        "Gradient spikes",
        "Number of spikes of the policy's gradient within the last window.",
        "From this number on it is a warning, unless nearly everything succeeds.",
        "from",
        "times",
    ),
    Signal(
        "reward",
        "Reward drop",
        "How far the reward's fast average is below the earlier one, in robust deviations of one iteration.",
        "Above it the reward has fallen; the limit is lower once the spread was lost.",
        "above",
        "deviations",
    ),
    Signal(
        "success",
        "Slow decline",
        "Success as a share of its best, both averaged over a window.",
        "Below it, beyond chance and while rewards within groups are more alike than before, success is in decline.",
        "below",
        "share",
    ),
    Signal(
        "echo",
        "Variety of first thoughts",
        "What is left of the greatest variety of first thoughts (1 − the share of the commonest, numbers aside).",
        "Below it, where most attempts begin alike and success does not explain it, they echo each other. Only shown.",
        "below",
        "share",
    ),
    Signal(
        "information",
        "Thoughts about their state",
        "Mutual information of state and thought, as a share of its best; needs 0.2 nats at best.",
        "Below it, unless success explains it, thoughts no longer depend on their state. Only shown.",
        "below",
        "share",
    ),
    Signal(
        "claims",
        "True claims",
        "Share of true claims in thoughts, as a share of its best, both averaged over a window.",
        "Below it, beyond chance, thoughts say less that is true. Only shown.",
        "below",
        "share",
    ),
    Signal(
        "learning",
        "Learning signal",
        "Share of the last window's iterations in which rewards within groups differ; 1 where nearly all succeed.",
        "Below it no group has taught anything for a window: there is nothing to judge.",
        "below",
        "share",
    ),
)
"""Signals in their order within a collapse, followed by the one that says whether anything can be judged."""
