"""Answers about evaluations of the main suite as metrics of the run, for curves, studies and exports.

They are stored when a worker answers, and again when the tables of a run were rebuilt from its journal, which does not
contain them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from trainer.journal.branches import Corrections, Interval, Survey
from webapp.branching.models import EvaluationQuestion
from webapp.runs.curve_axes import curve_axes
from webapp.runs.main_suite import main_suite
from webapp.runs.models import Evaluation, MetricPoint, Run

Kind = EvaluationQuestion.Kind
METRICS = {
    Kind.CORRECTIONS: ("corrections/won", "corrections/won_without"),
    Kind.THOUGHTS: ("thoughts/influence", "thoughts/follows_false_claim"),
}
"""Metrics by kind of question (trainer/metrics/answer_table.py)."""


def do_store_metrics(question: EvaluationQuestion) -> None:
    """Store the metrics of an answer; they replace the values of an earlier answer. A few queries."""
    values = _values(question)
    if not values or question.suite != main_suite(Evaluation.objects.filter(run=question.run_id), _own(question)):
        return
    tokens, seconds = curve_axes(question.run, [question.iteration]).get(question.iteration, (0, 0.0))
    MetricPoint.objects.bulk_create(
        [
            MetricPoint(
                run=question.run, name=name, iteration=question.iteration, value=value, tokens=tokens, seconds=seconds
            )
            for name, value in values.items()
        ],
        update_conflicts=True,
        unique_fields=["run", "name", "iteration"],
        update_fields=["value", "tokens", "seconds"],
    )


def do_drop_metrics(question: EvaluationQuestion) -> None:
    """Delete the metrics of a question that was deleted."""
    names = METRICS[Kind(question.kind)]
    MetricPoint.objects.filter(run=question.run_id, name__in=names, iteration=question.iteration).delete()


def do_restore_metrics(run: Run) -> None:
    """Store the metrics of all answers about a run; of several about one evaluation the newest counts."""
    answered = EvaluationQuestion.objects.filter(run=run, state=EvaluationQuestion.State.DONE)
    for question in answered.select_related("run").order_by("answered_at", "pk"):
        do_store_metrics(question)


def _own(question: EvaluationQuestion) -> str:
    return question.run.environment


def _values(question: EvaluationQuestion) -> Mapping[str, float]:
    """Return the known metrics of an answer; none if it cannot be read."""
    names = METRICS[Kind(question.kind)]
    try:
        numbers = _numbers(question)
    except ValidationError:
        return {}
    return {name: number for name, number in zip(names, numbers, strict=True) if number is not None}


def _numbers(question: EvaluationQuestion) -> tuple[float | None, float | None]:
    if question.kind == Kind.CORRECTIONS:
        corrections = Corrections.model_validate(question.result)
        known = corrections.difference is not None
        return (corrections.solved.share, corrections.solved_without.share) if known else (None, None)
    survey = Survey.model_validate(question.result)
    return _value(survey.influence), _value(survey.follows_false_claims)


def _value(interval: Interval | None) -> float | None:
    return None if interval is None else interval.value
