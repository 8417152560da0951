"""What may be asked about an evaluation: the form of a question, and why an evaluation takes none."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from trainer.journal.branches import MAX_ATTEMPTS, MAX_SAMPLES, CorrectMisreadings, SurveyThoughts
from trainer.journal.computed_tokens import weights_of
from webapp.branching.asked import AskedWrongly, replay_problem
from webapp.branching.models import EvaluationQuestion
from webapp.branching.policies import policy_problem, text_problem
from webapp.runs.models import Evaluation, Run
from webapp.trajectories.models import Group, Trajectory, TrajectoryQuerySet

Kind = EvaluationQuestion.Kind
MAX_PLAYED = 2000
"""Attempts of one question times its samples."""
USUAL_ATTEMPTS = {Kind.CORRECTIONS: 100, Kind.THOUGHTS: 24}
"""Attempts of a question that names no number. The thoughts of an attempt are asked about at each of its turns."""
USUAL_SAMPLES = {Kind.CORRECTIONS: 4, Kind.THOUGHTS: 8}
USUAL_PLAYED = 200
"""Lost attempts times samples, if a question names no number of samples: fewer samples of many attempts."""


class AskedOfEvaluation(BaseModel):
    """A question as it is asked; None leaves the number to the site.

    Attributes:
        suite, iteration: the evaluation; None: the main suite, and its newest evaluation.
    """

    model_config = ConfigDict(extra="forbid")

    kind: Kind = Kind.CORRECTIONS
    suite: str | None = Field(None, min_length=1, max_length=100)
    iteration: int | None = Field(None, ge=-(2**31), lt=2**31)
    samples: int | None = Field(None, ge=1, le=MAX_SAMPLES)
    attempts: int | None = Field(None, ge=1, le=MAX_ATTEMPTS)


def attempts_of(evaluation: Evaluation) -> TrajectoryQuerySet:
    """Return the attempts of an evaluation."""
    found = Trajectory.objects.current().filter(run=evaluation.run_id, split="eval", iteration=evaluation.iteration)
    return found.filter(group__suite=evaluation.suite)


def evaluation_refusal(evaluation: Evaluation, kind: Kind) -> str:
    """Return why nothing can be asked about an evaluation, as a sentence; empty if it can. A few queries."""
    run = evaluation.run
    if problem := policy_problem(run):
        return f"No policy can play on from these attempts: {problem}."
    if problem := text_problem(run, kind):
        return problem
    if weights_of("eval", evaluation.iteration) and not run.checkpoints.exists():
        return "No policy can play on from these attempts: no checkpoint of this run is kept."
    group = Group.objects.filter(trajectories__in=attempts_of(evaluation)).first()
    if group is None:
        return "The attempts of this evaluation are no longer stored."
    if problem := replay_problem(run, group.environment):
        return f"{group.environment} cannot be played again: {problem}."
    if kind == Kind.CORRECTIONS and not lost_attempts(evaluation):
        return "No attempt of this evaluation was lost."
    return ""


def lost_attempts(evaluation: Evaluation) -> int:
    """Return the number of attempts of an evaluation that were lost. One query."""
    return attempts_of(evaluation).filter(status=Trajectory.Status.FAILED).count()


def numbers_of(asked: AskedOfEvaluation, evaluation: Evaluation) -> tuple[int, int]:
    """Return the samples, and the maximum number of attempts. At most one query.

    Raises:
        AskedWrongly: they are too many.
    """
    attempts = asked.attempts or USUAL_ATTEMPTS[asked.kind]
    samples = asked.samples or USUAL_SAMPLES[asked.kind]
    if asked.samples is None and asked.kind == Kind.CORRECTIONS:
        played = max(1, min(attempts, lost_attempts(evaluation)))
        samples = max(1, min(samples, USUAL_PLAYED // played))
    if samples * attempts > MAX_PLAYED:
        most = max(1, MAX_PLAYED // samples)
        raise AskedWrongly("attempts", f"With {samples} samples, a question is about at most {most} attempts.")
    return samples, attempts


def as_sent_to_sampler(question: EvaluationQuestion, folder: str) -> CorrectMisreadings | SurveyThoughts:
    """Return the question as a sampler process reads it. Raises ValidationError if it became invalid.

    Args:
        folder: folder with the journal of the evaluation.
    """
    kind = CorrectMisreadings if question.kind == Kind.CORRECTIONS else SurveyThoughts
    return kind(
        id=question.slug,
        folder=folder,
        iteration=question.iteration,
        suite=question.suite,
        samples=question.samples,
        attempts=question.most_attempts,
    )


def find_asked_evaluation(run: Run, asked: AskedOfEvaluation, main: str) -> Evaluation:
    """Return the evaluation that a question is about. One query.

    Args:
        main: the suite by which the run is judged.
    Raises:
        AskedWrongly: the run has no such evaluation.
    """
    found = Evaluation.objects.filter(run=run, suite=asked.suite or main).order_by("-iteration")
    if asked.iteration is not None:
        found = found.filter(iteration=asked.iteration)
    evaluation = found.first()
    if evaluation is None:
        raise AskedWrongly("iteration" if asked.iteration is not None else "suite", "This run has no such evaluation.")
    evaluation.run = run
    return evaluation
