"""Policies that may play branches: kept weights of a run, or its hosted model if this site allows its endpoint."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from trainer.config.hosted import CONTINUE, HostedConfig
from trainer.config.removed import stored_config
from webapp.branching.models import BranchQuestion, EvaluationQuestion
from webapp.runs.inputs import endpoints
from webapp.runs.models import Run
from webapp.trajectories.token_computation import weights_problem


def hosted_model(run: Run) -> HostedConfig | None:
    """Return the hosted model that is a run's policy; None for other runs, and for settings of another version."""
    if not run.is_hosted:
        return None
    try:
        return stored_config(run.config).hosted
    except ValidationError:
        return None


def policy_problem(run: Run) -> str:
    """Return why the policy of a run cannot play on, as a clause; empty if it can."""
    hosted = hosted_model(run)
    if hosted is None or run.recorded is not None or run.imported:
        return weights_problem(run)
    problem = endpoints.hosted_problem(hosted)
    return f"{problem[0]} {problem[1]}" if problem else ""


def continues_text(run: Run) -> bool:
    """Return True if the policy of a run can continue a response that it did not begin."""
    hosted = hosted_model(run)
    return hosted is None or hosted.prefills


CONTINUES_NOTHING = (
    f"This hosted model continues no text: servers such as vLLM do for runs that set {CONTINUE}=true in "
    "hosted.extra_body."
)


def text_problem(run: Run, kind: Any, *, thought: bool = False) -> str:
    """Return why a question needs a policy that continues text, and this one does not; empty if there is no problem.

    Args:
        kind: a kind of BranchQuestion or EvaluationQuestion.
        thought: whether the question changes a thought.
    """
    needs = thought or kind in (BranchQuestion.Kind.THOUGHTS, *EvaluationQuestion.Kind)
    return CONTINUES_NOTHING if needs and not continues_text(run) else ""
