"""The policy of a checkpoint with its model card, as `python -m trainer export` writes it, to download."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from trainer.config.removed import stored_config
from trainer.journal import events
from trainer.journal.protocol import JOURNAL_FILE
from trainer.publishing import model_card
from trainer.publishing.run_facts import RunFacts
from trainer.publishing.trajectories import RecordedTrajectory
from webapp.runs import run_files
from webapp.runs.models import Evaluation, MetricPoint, Rewind, Run
from webapp.trajectories.models import Trajectory

SUCCESS = "success/rate"
MAX_FIRST_LINE = 2**20

logger = logging.getLogger(__name__)


def policy_archive(run: Run, iteration: int) -> Iterator[bytes] | None:
    """Return a tar archive in blocks: the model folder, then card, curve and settings; None without that checkpoint."""
    return run_files.model(run, iteration, lambda: card_files(run, iteration))


def card_files(run: Run, iteration: int) -> dict[str, bytes]:
    """Return the card's files by name; none if the run's settings are not valid in this version."""
    try:
        facts = _facts(run, iteration)
    except (ValidationError, ValueError) as error:
        logger.warning("The model of run %s has no card: %s", run.slug, error)
        return {}
    with tempfile.TemporaryDirectory() as folder:
        sample = _sample(run, iteration)
        model_card.write_card(Path(folder), facts, sample, licence="", adapter=False)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def _facts(run: Run, iteration: int) -> RunFacts:
    """Return the facts of the run up to the checkpoint from the database: its journal may be long, or elsewhere."""
    start = events.RunStarted(
        attempt=max(1, run.attempt),
        from_iteration=0,
        iterations=run.iterations,
        title=run.title,
        config=run.config,
        device=run.device,
        parameters=run.parameters,
        versions=_versions(run),
    )
    points = MetricPoint.objects.filter(run=run, iteration__lte=iteration)
    last = points.order_by("iteration").last()
    return RunFacts(
        iteration,
        start,
        stored_config(run.config),
        success=dict(points.filter(name=SUCCESS).values_list("iteration", "value")),
        evaluations=[
            events.Evaluation.model_validate(row)
            for row in Evaluation.objects.filter(run=run, iteration__lte=iteration)
            .order_by("iteration", "pk")
            .values(*(events.Evaluation.model_fields.keys() - {"type", "seq", "time", "extra"}))
        ],
        tokens=last.tokens if last else 0,
        seconds=last.seconds if last else 0.0,
        rewinds=[
            events.Rewound(number=rewind.number, from_iteration=rewind.from_iteration, to_iteration=rewind.to_iteration)
            for rewind in Rewind.objects.filter(run=run, from_iteration__lte=iteration)
        ],
    )


def _versions(run: Run) -> dict[str, str]:
    """Return versions and commit of the run from the first line of its journal; empty if it is not here."""
    try:
        with run_files.open_file(run, JOURNAL_FILE) as file:
            start = json.loads(file.readline(MAX_FIRST_LINE))
    except (OSError, ValueError):
        return {}
    versions = start.get("versions") if isinstance(start, dict) else None
    return {str(name): str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}


_TURN: TypeAdapter[events.Turn] = TypeAdapter(events.Turn)


def _sample(run: Run, iteration: int) -> RecordedTrajectory | None:
    """Choose a sample like `model_card.choose_sample`: newest, solved, of an evaluation, with many turns."""
    ended = Trajectory.objects.current().filter(
        run=run, iteration__lte=iteration, status__in=Trajectory.COUNTED, error=""
    )
    ranked = ended.order_by("-iteration", "-status", "split", "-turn_count", "pk")  # success before failed, eval first
    best = ranked.select_related("group").first()
    if best is None:
        return None
    group = best.group
    fields: dict[str, Any] = {name: getattr(group, name) for name in ("iteration", "environment", "seed", "prompt")}
    return RecordedTrajectory(
        best.key,
        best.attempt,
        best.member,
        events.GroupStarted.model_validate(
            fields
            | {"split": group.split, "suite": group.suite or None, "group": group.number, "board": group.board}
            | {"members": []}
        ),
        [_TURN.validate_python(turn.event) for turn in best.turns.order_by("number")],
        events.TrajectoryFinished.model_validate(
            {
                "trajectory": best.key,
                "success": best.success,
                "end": best.end,
                "total_reward": best.reward,
                "turns": best.turn_count,
                "actions": best.action_count,
            }
        ),
    )
