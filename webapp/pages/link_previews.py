"""Open Graph metadata of pages that anyone with the link may read, for previews in chats and social networks."""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import reverse

from webapp.core import formatting
from webapp.runs.models import Evaluation, Run
from webapp.studies.models import Study
from webapp.trajectories.models import Trajectory
from webapp.trajectories.positions import position_query, requested_position
from webapp.trajectories.sharing.public import comment_on, preview_title


def run_preview(request: HttpRequest, run: Run) -> dict[str, str] | None:
    """Return state, last evaluation, and the board of the newest ended attempt; None for a run only for the team."""
    if run.visibility != Run.Visibility.LINK:
        return None
    planned = f" of {run.iterations}" if run.iterations else ""
    words = [f"{run.get_state_display()}, iteration {run.iteration}{planned}"]
    evaluation = Evaluation.objects.filter(run=run).order_by("-iteration", "suite").first()
    if evaluation is not None:
        words.append(
            f"{evaluation.suite}: {formatting.percent(evaluation.success)} success after iteration "
            f"{evaluation.iteration} (95% interval {formatting.percent(evaluation.success_low)} to "
            f"{formatting.percent(evaluation.success_high)})"
        )
    ended = Trajectory.objects.filter(run=run, superseded=False, status__in=Trajectory.ENDED)
    newest = ended.order_by("-pk").first()
    meta = {
        "title": run.title,
        "description": f"{'. '.join(words)}. A language model learns to act in {run.environment}.",
        "url": request.build_absolute_uri(reverse("run", args=[run.slug])),
    }
    return meta if newest is None else meta | {"picture": _picture(request, newest, "")}


def trajectory_preview(request: HttpRequest, trajectory: Trajectory) -> dict[str, str] | None:
    """The comment on the attempt, and a picture of the requested position; None if only the team may read it."""
    if trajectory.run.visibility != Run.Visibility.LINK:
        return None
    position = requested_position(request.GET)
    query = position_query(*position) if position else ""
    return {
        "title": preview_title(trajectory),
        "description": comment_on(trajectory),
        "url": request.build_absolute_uri(reverse("trajectory", args=[trajectory.slug])) + query,
        "picture": _picture(request, trajectory, query),
    }


def study_preview(request: HttpRequest, study: Study, runs: int) -> dict[str, str] | None:
    """Return title and state; None for a study only for the team.

    Args:
        runs: number of its runs.
    """
    if not study.is_open:
        return None
    return {
        "title": study.title,
        "description": f"A study of {formatting.plural(runs, 'run')} that train language models to act, with curves "
        f"and tests of its findings. {study.get_state_display()}.",
        "url": request.build_absolute_uri(reverse("study", args=[study.slug])),
    }


def _picture(request: HttpRequest, trajectory: Trajectory, query: str) -> str:
    """Return the address of the picture, which differs for each state of the trajectory, as previews are cached."""
    address = request.build_absolute_uri(reverse("trajectory-picture", args=[trajectory.slug]))
    return f"{address}{query}{'&' if query else '?'}v={trajectory.last_seq}"
