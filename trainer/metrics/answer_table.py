"""Table of the metrics that a site computes from answers to questions about an evaluation (docs/branching.md)."""

from __future__ import annotations

from dataclasses import replace

from trainer.metrics.spec import MetricSpec, spec

ASKED = " Only where somebody asked."


def _distance(name: str, title: str, meaning: str) -> MetricSpec:
    return replace(spec(name, title, "evaluation", meaning, decimals=2), low=0.0, high=1.0)


ANSWERS: tuple[MetricSpec, ...] = (
    _distance(
        "thoughts/influence",
        "Influence of thoughts",
        "Distance of the next actions after no thought, or another attempt's, from those after its own; mean over the "
        "attempts of the evaluation. 0: decoration; 1: it decides." + ASKED,
    ),
    _distance(
        "thoughts/follows_false_claim",
        "Influence of false claims",
        "Distance of the next actions after its thought with every claim about the state made false, likewise." + ASKED,
    ),
    spec(
        "corrections/won",
        "Lost attempts won after a correction",
        "evaluation",
        "Share solved of continuations of lost attempts whose first false position was put right." + ASKED,
        "share",
    ),
    spec(
        "corrections/won_without",
        "Lost attempts won without it",
        "evaluation",
        "Share solved of as many continuations with the same seeds after the thought as it was." + ASKED,
        "share",
    ),
)
