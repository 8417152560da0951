"""Success rates of evaluations, as differences are computed from them."""

from __future__ import annotations

from trainer.metrics.success_difference import Rate
from webapp.runs.models import Evaluation


def measured_rate(evaluation: Evaluation) -> Rate:
    """Return the success rate of an evaluation."""
    return Rate(evaluation.success, evaluation.success_low, evaluation.success_high)
