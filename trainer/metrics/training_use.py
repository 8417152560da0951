"""Training use of the attempts of a rollout: trained on, or the reason why not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainer.metrics.spec import positive, spec

TRAINED = "trained"


@dataclass(frozen=True)
class TrainingUse:
    """A training use in words: a label of few words, and a sentence for people who do not know it."""

    label: str
    sentence: str


TRAINING_USES: dict[str, TrainingUse] = {
    TRAINED: TrainingUse("Trained on", "The update reinforced or discouraged at least one of its tokens."),
    "equal_rewards": TrainingUse(
        "No spread in its group", "All attempts of its group have the same reward: comparing them gives no signal."
    ),
    "resampled": TrainingUse(
        "Replaced", "All attempts of its group have the same reward: dynamic sampling played another group instead."
    ),
    "filtered": TrainingUse("Filtered out", "The group filter kept other groups (algorithm.group_filter)."),
    "zero_advantage": TrainingUse(
        "Zero advantage", "Its reward was just what was expected: no token has an advantage to learn from."
    ),
    "clipped": TrainingUse(
        "All tokens clipped", "The ratio of every token with an advantage was beyond the clip range in every step."
    ),
    "environment_error": TrainingUse("Environment failed", "Its environment, or a reward, raised an error or exited."),
    "timeout": TrainingUse("Environment timed out", "Its environment did not answer within the time limit."),
    "empty": TrainingUse("No tokens", "The policy sampled no token in it."),
    "critic_warmup": TrainingUse("Critic warm-up", "The iteration trained only the critic (optimizer.critic_warmup)."),
    "stale": TrainingUse("Too stale", "Its trainer left it out because older weights had sampled it."),
    "too_long": TrainingUse("Too long", "Its trainer left it out because of its length."),
    "other": TrainingUse("Left out", "Its trainer left it out."),
}
"""In the order of bars and lists. The last three are sent by other trainers only."""

OWN_USES = tuple(use for use in TRAINING_USES if use not in ("stale", "too_long", "other"))
"""Training uses of this trainer's attempts."""

USE_PREFIX = "attempts/"

USES = tuple(
    replace(
        positive(
            spec(
                f"{USE_PREFIX}{use}",
                TRAINING_USES[use].label,
                "training use",
                f"Attempts of the iteration. {TRAINING_USES[use].sentence}",
                "trajectories",
                "up" if use == TRAINED else "none",
            )
        ),
        decimals=0,
    )
    for use in OWN_USES
)
"""Metrics whose values add up to the iteration's attempts."""
