"""Results of a study's runs, written into the tables as the ingest would leave them."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone

from webapp.runs.models import Evaluation, MetricPoint, Run
from webapp.studies.models import Study


def runs_of(study: Study, arm: str = "") -> list[Run]:
    """The runs of a study, of one of its arms only, in the order of their launch."""
    runs = Run.objects.filter(study_run__arm__study=study)
    return list((runs.filter(study_run__arm__name=arm) if arm else runs).order_by("pk"))


def play_until(run: Run, curve: Sequence[float], state: Run.State = Run.State.RUNNING) -> None:
    """Success in training after each iteration from 1; the run is then in `state`."""
    MetricPoint.objects.filter(run=run).delete()
    MetricPoint.objects.bulk_create(
        MetricPoint(run=run, name=name, iteration=number, value=value, tokens=number, seconds=2.0 * number)
        for number, value in enumerate(curve, start=1)
        for name in ("success/rate", "reward/mean")
    )
    ended = timezone.now() if state in Run.ENDED else None
    Run.objects.filter(pk=run.pk).update(
        state=state, iteration=len(curve), iterations=max(run.iterations, len(curve)), seq=len(curve), ended_at=ended
    )


def evaluate(run: Run, success: float, iteration: int = 0, prompts: int = 256) -> None:
    """An evaluation on the run's own environment."""
    Evaluation.objects.create(
        run=run,
        iteration=iteration,
        suite=run.environment,
        prompts=prompts,
        success=success,
        success_low=max(0.0, success - 0.05),
        success_high=min(1.0, success + 0.05),
        mean_reward=1.0,
        mean_turns=1.0,
        mean_actions=1.0,
        time=timezone.now(),
    )


def finish(run: Run, success: float, curve: Sequence[float] = (0.2, 0.3)) -> None:
    """A complete run with this success at its end."""
    play_until(run, curve, Run.State.FINISHED)
    evaluate(run, 0.1)
    evaluate(run, success, len(curve))
