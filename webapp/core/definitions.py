"""Definitions of the product's terms for its pages; `{% term %}` shows them."""

from __future__ import annotations

from typing import NamedTuple


class Definition(NamedTuple):
    """A term and its meaning in one or two sentences."""

    term: str
    meaning: str


DEFINITIONS = {
    "attempt": Definition(
        "attempt",
        "One play of a puzzle or task from its start to its end, with all thoughts and actions: a trajectory.",
    ),
    "dead-end": Definition("dead end", "A position from which the puzzle can no longer be solved."),
    "dropped": Definition(
        "dropped", "A group that the update does not learn from, because its attempts earned nearly the same reward."
    ),
    "echo-trap": Definition(
        "Echo Trap",
        "A collapse of training: the policy repeats one thought whatever it sees, rewards within a group become equal, "
        "and there is nothing left to learn from.",
    ),
    "entropy": Definition(
        "entropy",
        "How undecided the policy is about the next token, in nats: 0 means that it always writes the same one.",
    ),
    "evaluation": Definition(
        "evaluation", "Play on a fixed set of puzzles or tasks without learning, to compare iterations and runs."
    ),
    "gradient-norm": Definition(
        "gradient norm", "The size of an update's gradient. Spikes often come before a collapse."
    ),
    "group": Definition("group", "Several attempts at the same task. Training compares them with each other."),
    "echo-meter": Definition(
        "Echo meter",
        "Bands of the commonest first thoughts of an iteration's attempts, with numbers left out. Many thin bands and "
        "free space are many different thoughts; one band that fills the picture is an echo.",
    ),
    "iteration": Definition("iteration", "One rollout and the update that learns from it."),
    "kept": Definition(
        "kept", "A group that the update learns from, because its attempts earned clearly different rewards."
    ),
    "puzzle": Definition("puzzle", "A start position of the environment, such as one Sokoban room."),
    "rollout": Definition("rollout", "All attempts of one iteration, played by the policy as it is."),
    "spread": Definition(
        "spread",
        "The standard deviation of the reward within a group. Without it all attempts are equally good, and none "
        "teaches anything.",
    ),
}
