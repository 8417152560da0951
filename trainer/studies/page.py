"""A study's page: picture, tables, findings, how it was made; Markdown and SVG text. Nothing is run or judged here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import envs
from trainer.metrics.registry import spec_of
from trainer.studies.catalogue import Arm, Scale, Study
from trainer.studies.drawing import Panel, PlotSeries, picture
from trainer.studies.grid import Cell
from trainer.studies.paper import REPORTED
from trainer.studies.results import FindingVerdict, Outcome

NONE = "–"
_SCALE_WORDS: dict[Scale, str] = {
    "smoke": "This is a smoke test: it shows that the study runs, and says nothing else.",
    "pocket": "The paper's policy has half a billion parameters and is trained for 200 iterations; here the pocket "
    "policy, with one million, starts from a warm-up on a solver's play. Shapes can be compared, numbers cannot.",
    "paper": "Settings are those of the paper as far as it tells them (docs/settings.md says where they come from).",
}


@dataclass(frozen=True)
class Made:
    """How a study came about. `seconds` is wall-clock time of all sessions together."""

    scale: Scale
    command: str
    machine: str
    seconds: float
    jobs: int
    seeds: int
    date: str


def write(
    study: Study, cells: Sequence[Cell], outcomes: Sequence[Outcome], found: Sequence[FindingVerdict], made: Made
) -> str:
    """The whole page. The picture is expected beside it under the study's name."""
    parts = [
        f"# {_label(study.name)}: {study.title}",
        f"{study.question} {_SCALE_WORDS[made.scale]}",
        f"![{study.title}, curves of all arms]({study.name}.svg)",
        "Bold lines are means over seeds, faint lines the seeds." if made.seeds > 1 else "",
        "## What came out",
        _outcomes_table(study, outcomes),
        _suites_table(study, outcomes),
        "Success is that of the last evaluation on the fixed prompts, the mean over seeds ± their standard deviation. "
        "Collapsed: the mean success of five iterations fell below half of its best and stayed there. Watch: iteration "
        "at which the Echo Trap watch spoke of a collapse. Time and memory are those of a whole run.",
        "## Which of the paper's findings appear",
        _findings_table(found),
        "Yes and no are said where the difference is more than two standard errors; a finding that no run could have "
        "shown cannot be told.",
        "## The paper's numbers",
        _paper_table(study),
        "## How it was made",
        _made(study, cells, made),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def draw(study: Study, outcomes: Sequence[Outcome], scale: Scale) -> str:
    """The picture: a row for each curve, a column for each world; evaluations as points where success is shown."""
    panels = []
    for metric in study.curves:
        spec = spec_of(metric)
        for world in study.worlds:
            series = [_series(arm, number, metric, world, outcomes) for number, arm in enumerate(study.arms)]
            title = f"{_world(world)}: {spec.title.lower()}"
            panels.append(Panel(title, [line for line in series if line.points], share=spec.unit == "share"))
    legend = [(arm.title, number) for number, arm in enumerate(study.arms)]
    return picture(f"{_label(study.name)}, {scale}: {study.title}", panels, legend, columns=len(study.worlds))


def _series(arm: Arm, number: int, metric: str, world: str, outcomes: Iterable[Outcome]) -> PlotSeries:
    curves = [o.curves.get(metric, {}) for o in outcomes if (o.world, o.arm) == (world, arm.name)]
    lines = [sorted(curve.items()) for curve in curves if curve]
    iterations = sorted({at for line in lines for at, _ in line})
    mean = [(float(at), fmean(curve[at] for curve in curves if at in curve)) for at in iterations]
    faint = [[(float(at), value) for at, value in line] for line in lines] if len(lines) > 1 else []
    return PlotSeries(arm.title, mean, number, faint)


def _outcomes_table(study: Study, outcomes: Sequence[Outcome]) -> str:
    header = ("world", "arm", "before", "after", "by seed", "collapsed", "watch", "updates", "minutes", "MiB", "paper")
    rows = []
    for world in study.worlds:
        for arm in study.arms:
            found = [o for o in outcomes if (o.world, o.arm) == (world, arm.name)]
            finals = [exam.success for o in found if (exam := o.final())]
            before = [exams[0].success for o in found if (exams := o.exams.get(o.suite)) and exams[0].iteration == 0]
            reported = [r for r in REPORTED[study.name] if (r.world or world, r.arm) == (world, arm.name)]
            rows.append(
                (
                    _world(world),
                    arm.title,
                    f"{fmean(before):.1%}" if before else NONE,
                    _spread(finals),
                    " ".join(f"{100 * value:.1f}" for value in finals) or NONE,
                    _each(o.collapse for o in found),
                    _each(o.trapped for o in found),
                    f"{fmean(o.update_seconds for o in found):.0f} s" if found else NONE,
                    f"{fmean(o.seconds for o in found) / 60:.1f}" if found else NONE,
                    f"{max(o.megabytes for o in found):,.0f}" if found else NONE,
                    "; ".join(f"{r.what}: {r.value}" for r in reported) or NONE,
                )
            )
    return table(header, rows)


def _suites_table(study: Study, outcomes: Sequence[Outcome]) -> str:
    if not study.suites:
        return ""
    rows = []
    for arm in study.arms:
        found = [o for o in outcomes if o.arm == arm.name]
        exams = ([exam.success for o in found if (exam := o.final(suite))] for suite in study.suites)
        rows.append((arm.title, *(_spread(values) for values in exams)))
    return "Examined elsewhere, without further training:\n\n" + table(("arm", *study.suites), rows)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return NONE
    around = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.1f}{around} %"


def _each(iterations: Iterable[int | None]) -> str:
    """Iterations of those seeds that have one, as in "2 of 3: 17, 31"."""
    listed = list(iterations)
    told = [str(value) for value in listed if value is not None]
    return f"{len(told)} of {len(listed)}{': ' + ', '.join(told) if told else ''}"


def _findings_table(found: Sequence[FindingVerdict]) -> str:
    rows = [(verdict.finding, _world(verdict.world), verdict.word, verdict.figures) for verdict in found]
    return table(("the paper says", "world", "here", "figures"), rows)


def _paper_table(study: Study) -> str:
    titles = {arm.name: arm.title for arm in study.arms}
    rows = [
        (
            reported.what,
            _world(reported.world) if reported.world else NONE,
            titles.get(reported.arm, NONE),
            reported.value,
        )
        for reported in REPORTED[study.name]
    ]
    return table(("what", "world", "arm", "paper"), rows)


def _made(study: Study, cells: Sequence[Cell], made: Made) -> str:
    config = cells[0].config
    rollout = config.rollout
    facts = [
        ("command", f"`{made.command}`"),
        ("machine", made.machine),
        ("wall-clock time", f"{made.seconds / 60:.0f} minutes for {len(cells)} runs, {made.jobs} at a time"),
        ("seeds", f"0 to {made.seeds - 1}" if made.seeds > 1 else "0"),
        ("date", made.date),
        ("policy", config.policy.model),
        ("iterations, P × N", f"{config.iterations}, {rollout.groups} × {rollout.group_size}"),
        ("policy learning rate", f"{config.optimizer.policy_lr:g}"),
        ("evaluation", f"{config.evaluation.prompts} fixed prompts, T = {config.evaluation.temperature:g}"),
    ]
    arms = [
        (arm.title, ", ".join(f"`{name}`: {value}" for name, value in _own(arm, cells).items())) for arm in study.arms
    ]
    return (
        table(("", ""), facts)
        + "\n\nThe arms, by the settings in which they differ:\n\n"
        + table(("arm", "settings"), arms)
    )


def _own(arm: Arm, cells: Sequence[Cell]) -> dict[str, Any]:
    """The arm's values of the settings that are not the same in every arm (in the first world)."""
    first = [cell for cell in cells if cell.world == cells[0].world and cell.seed == cells[0].seed]
    settings = {cell.arm.name: dict(_leaves(cell.config.model_dump(mode="json"))) for cell in first}
    own = settings[arm.name]
    return {
        name: value
        for name, value in own.items()
        if name != "name" and any(other.get(name) != value for other in settings.values())
    }


def _leaves(data: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _label(name: str) -> str:
    kind, _, number = name.partition("-")
    return f"{kind.capitalize()} {number.upper()}"


_TITLES = {"".join(part.lower() for part in name): name for name in envs.names()}


def _world(name: str) -> str:
    return _TITLES.get(name.replace("_", ""), name)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
