"""Metrics of rollouts that are played during updates (`rollout.max_staleness`)."""

from __future__ import annotations

from trainer.metrics.spec import MetricSpec, spec

AHEAD: tuple[MetricSpec, ...] = (
    spec(
        "rollout/staleness",
        "Staleness",
        "mismatch",
        "Updates that the weights of a sampled token were behind those that it updates, mean over tokens.",
        "updates",
        "down",
    ),
    spec(
        "rollout/staleness_max",
        "Largest staleness",
        "mismatch",
        "The same, maximum over tokens; at most rollout.max_staleness.",
        "updates",
        "down",
        decimals=0,
    ),
    spec(
        "cluster/rollout_idle_share",
        "Idle rollout actors",
        "throughput",
        "Share of the time since the previous iteration in which rollout actors had nothing to play.",
        "share",
        "down",
    ),
    spec(
        "cluster/tokens_per_second",
        "Tokens per second of an actor",
        "throughput",
        "Tokens that a rollout actor samples per second while it plays, mean over the sessions finished since the "
        "previous iteration.",
        "tokens/s",
        "up",
        decimals=0,
    ),
    spec(
        "cluster/slowest_actor",
        "Slowest actor",
        "throughput",
        "Speed of the slowest rollout actor relative to the median of all; the others wait for it.",
        "share",
        "up",
    ),
)
"""The learners' idle time is time/rollout: the wait for the next rollout."""
