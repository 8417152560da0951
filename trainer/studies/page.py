"""Page and picture of a study run by the command: its document with a record of the run, and its curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainer.metrics.charts import Panel, Points, Series, document
from trainer.metrics.registry import get_spec
from trainer.studies.arm_curves import ArmCurve, charts, evaluated
from trainer.studies.catalogue import label
from trainer.studies.cell_settings import environment_title
from trainer.studies.document import Document, Piece
from trainer.studies.grid import Cell, read_cost
from trainer.studies.method import ArmConfig
from trainer.studies.outcomes import Outcome
from trainer.studies.results import RunRow, StudyResults
from trainer.studies.study import Scale, Study
from trainer.studies.study_document import study_document


@dataclass(frozen=True)
class StudyRecord:
    """Record of a study's run: `seconds` of wall-clock time in all sessions, `reused` cells run by other studies."""

    scale: Scale
    command: str
    machine: str
    seconds: float
    reused: int
    jobs: int
    seeds: int
    date: str


def collect_results(study: Study, outcomes: Sequence[Outcome], record: StudyRecord) -> StudyResults:
    """Collect the results of a study with all cells complete."""
    return StudyResults(study, [RunRow(outcome) for outcome in outcomes], record.seeds, record.scale)


def write(results: StudyResults, cells: Sequence[Cell], record: StudyRecord) -> Document:
    """Return the study's document, with the command, the machine and the time of its run."""
    study = results.plan
    facts = {
        "command": Piece("", code=record.command),
        "machine": Piece(record.machine),
        "runs on each machine": Piece(_machines(cells)),
        "wall-clock time": Piece(_wall_clock_time(len(cells) - record.reused, record)),
        "seeds": Piece(f"0 to {record.seeds - 1}" if record.seeds > 1 else "0"),
        "date": Piece(record.date),
    }
    note = "Runs of other studies were timed in other sessions: do not compare their times." if record.reused else ""
    return study_document(
        f"{label(study.name)}: {study.title}",
        results,
        _of_arms(cells),
        picture=f"{study.title}, curves of all arms",
        lead=["Bold lines are means over seeds, faint lines single seeds."] if record.seeds > 1 else [],
        facts=facts,
        note=note,
    )


def draw(title: str, results: StudyResults) -> str:
    """Draw the picture: one row per metric, one column per environment; two columns if there is only one."""
    panels = [
        Panel(chart.title, [_series(curve) for curve in chart.curves], get_spec(chart.metric).unit, with_zero=True)
        for chart in charts(results, _get_line)
    ]
    return document(title, panels, columns=max(2, len(results.plan.environments)))


def _get_line(row: RunRow, metric: str) -> Points:
    outcome = row.outcome
    if metric == evaluated(outcome.suite):
        return [(result.iteration, result.success) for result in outcome.evaluations.get(outcome.suite, ())]
    return sorted(outcome.curves.get(metric, {}).items())


def _series(curve: ArmCurve) -> Series:
    """Return the mean of an arm; several runs are faint lines instead of its band."""
    faint = curve.runs if len(curve.runs) > 1 else ()
    return replace(curve.series(""), colour=curve.arm.colour - 1, band=(), faint=faint)


def _of_arms(cells: Sequence[Cell]) -> list[ArmConfig]:
    """Return the settings of each arm in each environment."""
    first: dict[tuple[str, str], ArmConfig] = {}
    for cell in cells:
        first.setdefault(
            (cell.environment, cell.arm.name), ArmConfig(cell.environment, cell.arm.title, cell.arm.name, cell.config)
        )
    return list(first.values())


def _machines(cells: Sequence[Cell]) -> str:
    """List the runs of each machine, the one with most runs last and as “the others”; empty if all ran on one.

    Runs are equal with equal settings on one machine only, so that a table of several mixes their differences.
    """
    names: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        machine = "; then ".join(read_cost(cell.folder).machines) or "not recorded"
        arm = f"{environment_title(cell.environment)}, {cell.arm.title}"
        names.setdefault(machine, {}).setdefault(arm, []).append(str(cell.seed))
    if len(names) < 2:
        return ""
    *few, most = sorted(names, key=lambda machine: sum(map(len, names[machine].values())))
    listed = []
    for machine in few:
        runs = (f"{arm} (seeds {' '.join(seeds)})" for arm, seeds in names[machine].items())
        listed.append(f"{machine}: {', '.join(runs)}")
    return "; ".join([*listed, f"{most}: the others"])


def _wall_clock_time(runs: int, record: StudyRecord) -> str:
    text = f"{record.seconds / 60:.0f} minutes for {runs} runs, {record.jobs} at a time" if runs else "none"
    if record.reused:
        text += f"; {record.reused} runs were taken from other studies with the same settings"
    return text
