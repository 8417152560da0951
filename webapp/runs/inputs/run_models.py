"""Models that are checkpoints of other runs of the site: `run:SLUG` or `run:SLUG@ITERATION` in `policy.model`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from trainer.config.run import RunConfig
from trainer.journal.protocol import RUN_MODEL
from webapp.runs.models import Checkpoint, Run

_MODEL = re.compile(rf"{re.escape(RUN_MODEL)}([0-9A-Za-z]{{1,24}})(?:@([0-9]{{1,7}}))?")
SPELLING = f"{RUN_MODEL}SLUG or {RUN_MODEL}SLUG@ITERATION"
MAX_LISTED = 10


@dataclass(frozen=True)
class RunModel:
    """A checkpoint of a run. Without an iteration, the newest one."""

    slug: str
    iteration: int | None = None

    def __str__(self) -> str:
        return f"{RUN_MODEL}{self.slug}" + ("" if self.iteration is None else f"@{self.iteration}")


def parse(model: str) -> RunModel | None:
    """Return the checkpoint that a `policy.model` names; None if it names something else."""
    match = _MODEL.fullmatch(model)
    return RunModel(match[1], int(match[2]) if match[2] else None) if match else None


def readable_by_run(run: Run) -> QuerySet[Run]:
    """Return the runs whose checkpoints a run may use: readable by its author as a member, or by its whole team."""
    of_team = Q(team_id=run.team_id) & ~Q(visibility=Run.Visibility.PRIVATE)
    if run.author is None or not run.author.is_active:
        return Run.objects.filter(of_team)
    return Run.objects.filter(of_team | Q(pk__in=Run.objects.listed_for(run.author).values("pk")))


def problem(model: str, readable: QuerySet[Run], *, stored: bool = False) -> str:
    """Return the reason why a model that begins with `run:` may not be used; empty if it may.

    Args:
        model: a `policy.model`.
        readable: runs of the caller.
        stored: the run exists, and may have its own copy of the checkpoint: only rights are checked.
    """
    named = parse(model)
    if named is None:
        return f"must be {SPELLING}, not {model!r}"
    source = readable.filter(slug=named.slug).first()
    if source is None:
        return f"there is no run {named.slug} that you may read as a member of its team"
    if stored:
        return ""
    if source.imported:
        return f"run {named.slug} was trained elsewhere: its checkpoints are not here"
    iterations = list(source.checkpoints.order_by("-iteration").values_list("iteration", flat=True))
    if not iterations:
        return f"run {named.slug} has no checkpoint yet"
    if named.iteration is not None and named.iteration not in iterations:
        listed = ", ".join(str(iteration) for iteration in iterations[:MAX_LISTED])
        return f"run {named.slug} has no checkpoint of iteration {named.iteration}: choose one of {listed}"
    return ""


def pinned(config: RunConfig) -> RunConfig:
    """Return the configuration with the newest checkpoint written out, so that later ones do not count."""
    named = parse(config.policy.model)
    if named is None or named.iteration is not None:
        return config
    newest = Checkpoint.objects.filter(run__slug=named.slug).order_by("-iteration").first()
    if newest is None:
        return config
    model = str(RunModel(named.slug, newest.iteration))
    return config.model_copy(update={"policy": config.policy.model_copy(update={"model": model})})
