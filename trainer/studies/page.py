"""Page of a study as Markdown, and its picture as SVG: curves, tables, findings, method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from trainer.metrics.charts import Panel, Series, document
from trainer.metrics.registry import spec_of
from trainer.metrics.spec import Unit
from trainer.studies.catalogue import label
from trainer.studies.cell_settings import environment_title
from trainer.studies.grid import Cell
from trainer.studies.limits import limits
from trainer.studies.method import ArmConfig, differing_settings, shared_settings
from trainer.studies.outcomes import Outcome, puzzle_note
from trainer.studies.paper import REPORTED, other_estimators
from trainer.studies.significance import MIN_SEEDS
from trainer.studies.study import SUCCESS, Arm, Scale, Study
from trainer.studies.tables import NONE, of_seeds, p_value, spread, table
from trainer.studies.verdicts import FindingVerdict

_SCALE_WORDS: dict[Scale, str] = {
    "smoke": "This is a smoke test: it shows only that the study runs.",
    "pocket": "The paper's policy has half a billion parameters and is trained for 200 iterations; here a pocket "
    "policy, with at most a million parameters, starts from a warm-up on a solver's play, or in the bandit on arms "
    "pulled at random. Shapes can be compared, numbers cannot.",
    "paper": "Settings are those of the paper as far as it states them (sources are in docs/settings.md).",
}


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


def write(
    study: Study,
    cells: Sequence[Cell],
    outcomes: Sequence[Outcome],
    verdicts: Sequence[FindingVerdict],
    record: StudyRecord,
) -> str:
    """The complete page. It shows the picture STUDY.svg from the same folder."""
    of_arms = _of_arms(cells)
    parts = [
        f"# {label(study.name)}: {study.title}",
        " ".join(filter(None, [study.question, _SCALE_WORDS[record.scale], limits(study.name, record.scale)])),
        f"![{study.title}, curves of all arms]({study.name}.svg)",
        "Bold lines are means over seeds, faint lines single seeds." if max(record.seeds.values()) > 1 else "",
        "## Results",
        _outcomes_table(study, outcomes),
        _suites_table(study, outcomes),
        "Success is that of the last evaluation on the fixed prompts, as the mean over seeds ± standard deviation. "
        "Collapsed: the mean success of five iterations fell below half of its best and stayed there. Detected: "
        "iteration at which the Echo Trap detector reported a collapse. A rewind takes iterations back: they count "
        "for what was detected and for steps and time, not for success. Steps are those of the optimiser. Minutes are "
        "those of a whole run; memory is the peak of the learner: what it reserved on the GPU where there is one, else "
        "what its process used. Steps, time and memory are means over seeds."
        + (" Runs of other studies were timed in other sessions: do not compare their times." if record.reused else ""),
        "## Findings of the paper",
        _findings_table(verdicts),
        f"Figures are followed by their 95 % intervals. A verdict needs at least {MIN_SEEDS} seeds of each arm and a "
        "two-sided p value of at most 0.05 after Holm's correction for all tested claims of this page; otherwise these "
        "runs are inconclusive. Seeds that could settle a claim suppose that the p values of the other claims stay as "
        "they are. They are planned for a chance of 80 % if the difference is as large as measured; for a collapse "
        "they are the fewest with which the exact test can reach its level, if all seeds of one arm collapse before "
        "those of the other.",
        puzzle_note(outcomes),
        "## Figures of the paper",
        _paper_table(study),
        other_estimators(study.name, of_arms),
        "## Method",
        _method(of_arms, len(cells), record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


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
    curves = [curve_of(o) for o in outcomes if (o.environment, o.arm) == (environment, arm.name)]
    lines = [sorted(curve.items()) for curve in curves if curve]
    iterations = sorted({at for line in lines for at, _ in line})
    mean = [(float(at * arm.stretch), fmean(curve[at] for curve in curves if at in curve)) for at in iterations]
    faint = [[(float(at * arm.stretch), value) for at, value in line] for line in lines] if len(lines) > 1 else []
    return Series(arm.title, mean, number, faint)


def _outcomes_table(study: Study, outcomes: Sequence[Outcome]) -> str:
    header = (
        "environment",
        "arm",
        "before",
        "after",
        "by seed",
        "collapsed",
        "detected",
        "steps",
        "updates",
        "minutes",
        "peak MiB",
        "paper",
    )
    rows = []
    for environment in study.environments:
        for arm in study.arms:
            own = [o for o in outcomes if (o.environment, o.arm) == (environment, arm.name)]
            finals = [evaluation.success for o in own if (evaluation := o.final())]
            before = [
                evaluations[0].success
                for o in own
                if (evaluations := o.evaluations.get(o.suite)) and evaluations[0].iteration == 0
            ]
            reported = [
                r for r in REPORTED[study.name] if (r.environment or environment, r.arm) == (environment, arm.name)
            ]
            rows.append(
                (
                    environment_title(environment),
                    arm.title,
                    f"{fmean(before):.1%}" if before else NONE,
                    spread(finals),
                    " ".join(f"{100 * value:.1f}" for value in finals) or NONE,
                    of_seeds([o.collapse for o in own]),
                    of_seeds([o.trapped for o in own]) + _rewinds(own),
                    f"{fmean(o.steps for o in own):,.0f}" if any(o.steps for o in own) else NONE,
                    f"{fmean(o.update_seconds for o in own):.0f} s" if own else NONE,
                    f"{fmean(o.seconds for o in own) / 60:.1f}" if own else NONE,
                    _memory(own),
                    "; ".join(f"{r.what}: {r.value}" for r in reported) or NONE,
                )
            )
    return table(header, rows)


def _suites_table(study: Study, outcomes: Sequence[Outcome]) -> str:
    suites = study.all_suites
    if not suites:
        return ""
    rows = []
    for arm in study.arms:
        own = [o for o in outcomes if o.arm == arm.name]
        evaluations = ([evaluation.success for o in own if (evaluation := o.final(suite))] for suite in suites)
        rows.append((arm.title, *(spread(values) for values in evaluations)))
    return "Evaluated on other suites, without further training:\n\n" + table(("arm", *suites), rows)


def _memory(outcomes: Sequence[Outcome]) -> str:
    """Mean of the learner's peaks, if all are known."""
    peaks = [outcome.learner_megabytes for outcome in outcomes]
    return f"{fmean(peaks):,.0f}" if peaks and all(peaks) else NONE


def _rewinds(outcomes: Sequence[Outcome]) -> str:
    """How often the runs of an arm went back to a checkpoint, in parentheses."""
    count = sum(outcome.rewinds for outcome in outcomes)
    return f" ({count} rewind{'s' if count > 1 else ''})" if count else ""


def _findings_table(verdicts: Sequence[FindingVerdict]) -> str:
    rows = [
        (
            verdict.finding,
            environment_title(verdict.environment),
            verdict.word,
            verdict.figures,
            *(p_value(p) for p in (verdict.p, verdict.corrected)),
        )
        for verdict in verdicts
    ]
    return table(("finding", "environment", "here", "figures", "p", "p, corrected"), rows)


def _paper_table(study: Study) -> str:
    titles = {arm.name: arm.title for arm in study.arms}
    rows = [
        (
            reported.what,
            environment_title(reported.environment) if reported.environment else NONE,
            titles.get(reported.arm, NONE),
            reported.value,
        )
        for reported in REPORTED[study.name]
    ]
    return table(("quantity", "environment", "arm", "paper"), rows)


def _of_arms(cells: Sequence[Cell]) -> list[ArmConfig]:
    """The settings of each arm in each environment."""
    first: dict[tuple[str, str], ArmConfig] = {}
    for cell in cells:
        first.setdefault(
            (cell.environment, cell.arm.name), ArmConfig(cell.environment, cell.arm.title, cell.arm.name, cell.config)
        )
    return list(first.values())


def _method(configs: Sequence[ArmConfig], runs: int, record: StudyRecord) -> str:
    facts = {
        "command": f"`{record.command}`",
        "machine": record.machine,
        "wall-clock time": _wall_clock_time(runs - record.reused, record),
        "seeds": _seeds(record.seeds),
        "date": record.date,
        **shared_settings(configs),
    }
    arms = [
        (title, ", ".join(f"`{name}`: {value}" for name, value in own.items()))
        for title, own in differing_settings(configs).items()
    ]
    words = "The arms differ in these settings:"
    return table(("", ""), facts.items()) + f"\n\n{words}\n\n" + table(("arm", "settings"), arms)


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
