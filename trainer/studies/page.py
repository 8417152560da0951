"""Page and picture of a study that the command has run: its document with a record of the run, and its curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from trainer.metrics.charts import Panel, Series, document
from trainer.metrics.registry import spec_of
from trainer.metrics.spec import Unit
from trainer.studies.arm_curves import band, series
from trainer.studies.catalogue import label
from trainer.studies.cell_settings import environment_title
from trainer.studies.document import Document, Piece
from trainer.studies.grid import Cell
from trainer.studies.method import ArmConfig
from trainer.studies.outcomes import Outcome
from trainer.studies.results import RunRow, StudyResults
from trainer.studies.study import SUCCESS, Arm, Scale, Study
from trainer.studies.study_document import study_document


@dataclass(frozen=True)
class StudyRecord:
    """How a study was run: `seconds` of wall-clock time in all sessions, `reused` cells run by other studies."""

    scale: Scale
    command: str
    machine: str
    seconds: float
    reused: int
    jobs: int
    seeds: Mapping[str, int]
    """By environment."""
    date: str


def results_of(study: Study, outcomes: Sequence[Outcome], record: StudyRecord) -> StudyResults:
    """Results of a study whose cells are all complete."""
    return StudyResults(study, [RunRow(outcome) for outcome in outcomes], record.seeds, record.scale)


def write(study: Study, cells: Sequence[Cell], outcomes: Sequence[Outcome], record: StudyRecord) -> Document:
    """The document of the study, with the command, the machine and the time of its run."""
    facts = {
        "command": Piece("", code=record.command),
        "machine": Piece(record.machine),
        "wall-clock time": Piece(_wall_clock_time(len(cells) - record.reused, record)),
        "seeds": Piece(_seeds(record.seeds)),
        "date": Piece(record.date),
    }
    note = "Runs of other studies were timed in other sessions: do not compare their times." if record.reused else ""
    return study_document(
        f"{label(study.name)}: {study.title}",
        results_of(study, outcomes, record),
        _of_arms(cells),
        picture=f"{study.title}, curves of all arms",
        lead=["Bold lines are means over seeds, faint lines single seeds."] if max(record.seeds.values()) > 1 else [],
        facts=facts,
        note=note,
    )


def draw(study: Study, outcomes: Sequence[Outcome], scale: Scale) -> str:
    """The picture: one row per curve, one column per environment; two columns if there is only one.

    Evaluations are the first row if an arm plays nothing while it trains, as imitation does.
    """
    panels = []
    if any(not outcome.curves.get(SUCCESS) for outcome in outcomes):
        panels += _row(study, outcomes, "success in evaluations", _evaluated, "share")
    for metric in study.curves:
        spec = spec_of(metric)
        of_metric = partial(_recorded, metric)
        panels += _row(study, outcomes, spec.title.lower(), of_metric, spec.unit)
    title = f"{label(study.name)}, {scale}: {study.title}"
    return document(title, panels, columns=max(2, len(study.environments)))


CurveOf = Callable[[Outcome], Mapping[int, float]]
"""Values of a run by iteration."""


def _evaluated(outcome: Outcome) -> Mapping[int, float]:
    return {evaluation.iteration: evaluation.success for evaluation in outcome.evaluations.get(outcome.suite, ())}


def _recorded(metric: str, outcome: Outcome) -> Mapping[int, float]:
    return outcome.curves.get(metric, {})


def _row(study: Study, outcomes: Sequence[Outcome], title: str, curve_of: CurveOf, unit: Unit) -> list[Panel]:
    """A panel for each environment."""
    panels = []
    for environment in study.environments:
        series = [_series(arm, number, curve_of, environment, outcomes) for number, arm in enumerate(study.arms)]
        named = f"{environment_title(environment)}: {title}"
        panels.append(Panel(named, [line for line in series if line.points], unit))
    return panels


def _series(arm: Arm, number: int, curve_of: CurveOf, environment: str, outcomes: Iterable[Outcome]) -> Series:
    """The mean of an arm; in place of its band, each of several runs as a faint line."""
    curves = [curve_of(o) for o in outcomes if (o.environment, o.arm) == (environment, arm.name)]
    lines = [[(float(at), value) for at, value in sorted(curve.items())] for curve in curves if curve]
    mean = series(arm.title, number, band(lines, arm.stretch), "")
    faint = [[(at * arm.stretch, value) for at, value in line] for line in lines] if len(lines) > 1 else []
    return replace(mean, band=(), faint=faint)


def _of_arms(cells: Sequence[Cell]) -> list[ArmConfig]:
    """The settings of each arm in each environment."""
    first: dict[tuple[str, str], ArmConfig] = {}
    for cell in cells:
        first.setdefault(
            (cell.environment, cell.arm.name), ArmConfig(cell.environment, cell.arm.title, cell.arm.name, cell.config)
        )
    return list(first.values())


def _seeds(counts: Mapping[str, int]) -> str:
    """Seeds from 0, and those of environments that have more."""
    least = min(counts.values())
    more = [f"{environment_title(name)}: 0 to {count - 1}" for name, count in counts.items() if count > least]
    return "; ".join([f"0 to {least - 1}" if least > 1 else "0", *more])


def _wall_clock_time(runs: int, record: StudyRecord) -> str:
    words = f"{record.seconds / 60:.0f} minutes for {runs} runs, {record.jobs} at a time" if runs else "none"
    if record.reused:
        words += f"; {record.reused} runs are those of other studies with the same settings"
    return words
