"""The document of a study: its results, verdicts and settings, for the command's file and the site's page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from trainer.metrics.registry import get_spec
from trainer.studies.cell_settings import environment_title
from trainer.studies.document import Cell, Column, Document, Piece, StudySection, cell
from trainer.studies.limits import limits
from trainer.studies.method import ArmConfig, differing_settings, shared_settings
from trainer.studies.outcomes import Outcome
from trainer.studies.paper import other_estimators
from trainer.studies.results import ArmResult, RunRow, StudyResults
from trainer.studies.study import Scale
from trainer.studies.tables import NONE, UNSETTLED, of_seeds, p_value, seconds_text, share, signed, spread

if TYPE_CHECKING:
    from trainer.studies.estimates import Range
    from trainer.studies.verdicts import FindingVerdict

MAX_ARM_COLUMNS = 8
"""Maximum number of arms that are columns of the table of settings; more arms are its rows."""
_SCALE_WORDS: dict[Scale, str] = {
    "smoke": "This is a smoke test: it shows only that the study runs.",
    "pocket": "The paper's policy has half a billion parameters and is trained for 200 iterations; here a pocket "
    "policy, with at most a million parameters, starts from a warm-up on a solver's play, or in the bandit on arms "
    "pulled at random. Shapes can be compared, numbers cannot.",
    "paper": "Settings are those of the paper as far as it states them (sources are in docs/settings.md).",
}
_RESULTS_NOTE = (
    "After: success in the last evaluation of each run on the evaluation puzzles, as the mean over seeds ± standard "
    "deviation. Collapsed: the mean success of five iterations fell below half of its best and stayed there. Detected: "
    "iteration at which the Echo Trap detector reported a collapse, including alarms later undone by a rewind. "
    "Iterations undone by a rewind count for steps and time, not for success. Steps are optimiser steps. Time is the "
    "time of a run after the start of its process; memory is the peak of the learner: what it reserved on the GPU if "
    "there is one, otherwise the memory of its process. Steps, time and memory are means over seeds."
)
_INCOMPLETE_NOTE = "Figures of runs that are not complete are in italics."
_VERDICTS_NOTE = (
    "Figures are followed by their 95 % intervals. “Yes” and “no” need at least three seeds of each arm and a "
    "two-sided p value of at most 0.05 after Holm's correction for all tested claims of this page; everything else is "
    "inconclusive. Seeds that could settle a claim suppose that the p values of the other claims stay as they are. "
    "They are planned for a chance of 80 % if the difference is as large as measured; for a collapse they are the "
    "fewest with which the exact test can reach its level, if all seeds of one arm collapse before those of the other."
)
_DIFFERENCES_NOTE = (
    "Estimates in points of success with 95 % intervals, which verdicts do not use: the difference of the "
    "interquartile means over seeds (stratified bootstrap), the probability that a run of the first arm ends "
    "higher than a run of the second, the mean difference of runs with the same seed, and the difference of the "
    "mean success over the whole training (area under the curve). Equal within 5 points: the 90 % interval of the "
    "difference of the means lies within them."
)
_PROVISIONAL_NOTE = (
    "A verdict is provisional until all planned seeds are complete: looking earlier makes chance findings more likely."
)


def study_document(
    title: str,
    results: StudyResults,
    configs: Sequence[ArmConfig],
    *,
    lead: Sequence[str] = (),
    picture: str = "Curves of the arms",
    facts: Mapping[str, Piece] | None = None,
    note: str = "",
    label: Callable[[str], str] = lambda name: "",
) -> Document:
    """Describe everything that is known about a study.

    Args:
        configs: settings of each arm in each environment.
        lead: further paragraphs below the question.
        picture: content of the charts.
        facts: facts about the run, before the settings that all arms share.
        note: further information for readers of the results.
        label: returns the label of a setting by its dotted name; empty if it has none.
    """
    plan, scale = results.plan, results.scale
    about = [plan.question, _SCALE_WORDS[scale] if scale else "", limits(plan.name, scale) if scale else ""]
    sections = [
        _arms(results, note),
        _suites(results),
        _verdicts(results),
        _differences(results),
        _paper(results, configs),
        _method(facts or {}, configs),
        _settings(configs, label),
        _runs(results.rows, results),
    ]
    return Document(
        title,
        [text for text in (" ".join(filter(None, about)), *lead) if text],
        picture,
        [section for section in sections if section.rows],
        _outcome(results.verdicts),
    )


# -- arms -------------------------------------------------------------------------------------------------------------


def _arms(results: StudyResults, note: str) -> StudySection:
    incomplete = any(not row.complete and row.success is not None for row in results.rows)
    columns = [
        Column("Environment"),
        Column("Trial" if results.ranked else "Arm", "row header"),
        Column("Before", "figure"),
        Column("After", "figure"),
        Column("By seed", "figures"),
        Column("Complete", "figure"),
        Column("Collapsed"),
        Column("Detected"),
        Column("Time of a run", "figure"),
    ]
    rows = [_arm(arm) for arm in results.arms]
    for column, text in _where_known(results):
        texts = [text(arm) for arm in results.arms]
        if any(text != NONE for text in texts):
            columns.append(column)
            rows = [[*row, cell(text)] for row, text in zip(rows, texts, strict=True)]
    notes = " ".join(filter(None, [_RESULTS_NOTE, _INCOMPLETE_NOTE if incomplete else "", note]))
    title = "Trials, best first" if results.ranked else "Results"
    return StudySection("arms", title, columns, rows, notes=[notes])


def _arm(arm: ArmResult) -> list[Cell]:
    named = [Piece(arm.arm.title, colour=arm.colour)]
    if arm.stopped:
        named.append(Piece("stopped early", note=arm.stopped, mark="tag"))
    begun = arm.begun
    return [
        cell(environment_title(arm.environment)),
        named,
        cell(NONE if arm.before is None else share(arm.before)),
        [Piece(spread(arm.successes), mark="strong")],
        [_seed(row) for row in arm.rows] or cell(NONE),
        cell(f"{arm.complete} of {len(arm.rows)}"),
        cell(of_seeds([outcome.collapse for outcome in begun])),
        cell(of_seeds([outcome.trapped for outcome in begun]) + _rewinds(begun)),
        cell(NONE if arm.seconds is None else seconds_text(arm.seconds)),
    ]


def _seed(row: RunRow) -> Piece:
    """Return the success of a run, or its state before there is a result."""
    text = row.state.lower() if row.success is None else f"{100 * row.success:.1f}"
    note = f"Seed {row.outcome.seed}, iteration {row.outcome.iterations}"
    if row.iterations:
        note += f" of {row.iterations}"
    return Piece(text, row.link, note, mark="" if row.complete else "incomplete")


def _rewinds(outcomes: Sequence[Outcome]) -> str:
    """Count the rewinds of an arm's runs, in parentheses."""
    count = sum(outcome.rewinds for outcome in outcomes)
    return f" ({count} rewind{'s' if count > 1 else ''})" if count else ""


def _where_known(results: StudyResults) -> list[tuple[Column, Callable[[ArmResult], str]]]:
    """Return further columns, which are omitted if no arm has a value."""

    def number(value: float | None, form: str) -> str:
        return NONE if value is None else form.format(value)

    columns: list[tuple[Column, Callable[[ArmResult], str]]] = [
        (Column("Steps", "figure"), lambda arm: number(arm.steps, "{:,.0f}")),
        (Column("Updates", "figure"), lambda arm: number(arm.update_seconds, "{:,.0f} s")),
        (Column("Peak MiB", "figure"), lambda arm: number(arm.learner_megabytes, "{:,.0f}")),
    ]
    if results.metric:
        metric = get_spec(results.metric)
        column = Column(metric.title, "figure", results.metric)
        columns.append((column, lambda arm: NONE if arm.value is None else metric.reading(arm.value)))
    if results.scale == "paper":  # figures of another model are only in a table by themselves
        paper = Column("Paper")
        columns.append((paper, lambda arm: "; ".join(f"{it.what}: {it.value}" for it in arm.reported) or NONE))
    return columns


def _suites(results: StudyResults) -> StudySection:
    suites = results.plan.all_suites
    rows: list[list[Cell]] = []
    for arm in results.plan.arms if suites else ():
        outcomes = [row.outcome for row in results.rows if row.outcome.arm == arm.name]
        rows.append([cell(arm.title), *(cell(_before_and_after(outcomes, suite)) for suite in suites)])
    columns = [Column("Arm", "row header"), *(Column(suite, "figure") for suite in suites)]
    about = "Success before and after the training, which was in the environment above only."
    return StudySection("suites", "Other suites", columns, rows, about)


def _before_and_after(outcomes: Sequence[Outcome], suite: str) -> str:
    """Return success in a suite: the mean of all runs before training, and mean ± standard deviation after it."""
    before = [first.success for outcome in outcomes if (first := outcome.first(suite))]
    after = spread([final.success for outcome in outcomes if (final := outcome.final(suite))])
    return f"{share(fmean(before))} → {after}" if before else after


# -- verdicts and the paper -------------------------------------------------------------------------------------------


def _verdicts(results: StudyResults) -> StudySection:
    columns = [
        Column("Claim", "row header"),
        Column("Environment"),
        Column("Result", "verdict"),
        Column("Figures"),
        Column("p", "figure"),
        Column("p, corrected", "figure"),
        Column("Complete", "figure"),
    ]
    rows = [
        [
            cell(text)
            for text in (
                verdict.finding,
                environment_title(verdict.environment),
                verdict.text,
                verdict.figures,
                p_value(verdict.p),
                p_value(verdict.corrected),
                f"{verdict.complete} of {verdict.planned} seed{'s' if verdict.planned != 1 else ''}",
            )
        ]
        for verdict in results.verdicts
    ]
    provisional = "" if all(verdict.firm for verdict in results.verdicts) else _PROVISIONAL_NOTE
    notes = [" ".join(filter(None, [_VERDICTS_NOTE, provisional])), results.puzzle_note]
    return StudySection("verdicts", "Verdicts", columns, rows, notes=[note for note in notes if note])


def _outcome(verdicts: Sequence[FindingVerdict]) -> str:
    """Return the result of a study in words: what is settled, what is not, and what these runs could not test."""
    environments_by_claim: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        settled = verdict.word != UNSETTLED
        kind = "Settled" if settled else "Not tested by these runs" if verdict.p is None else "Not settled"
        claim = f"“{verdict.finding}”: {verdict.text}" if settled else f"“{verdict.finding}”"
        environments_by_claim.setdefault((kind, claim), []).append(environment_title(verdict.environment))
    kinds: dict[str, list[str]] = {"Settled": [], "Not settled": [], "Not tested by these runs": []}
    for (kind, claim), environments in environments_by_claim.items():
        kinds[kind].append(f"{claim} ({', '.join(environments)})")
    if not kinds["Settled"] and not kinds["Not settled"]:
        return ""
    return " ".join(f"{kind}: {'; '.join(claims)}." for kind, claims in kinds.items() if claims)


def _differences(results: StudyResults) -> StudySection:
    def points(found: Range | None) -> str:
        if found is None:
            return NONE
        return f"{signed(100 * found.value)} ({signed(100 * found.low)} to {signed(100 * found.high)})"

    columns = [
        Column("Claim", "row header"),
        Column("Environment"),
        Column("Interquartile mean", "figure"),
        Column("Ends higher", "figure"),
        Column("Same seeds", "figure"),
        Column("Over the training", "figure"),
        Column("Equal within 5 points", "figure"),
    ]
    rows = [
        [
            cell(text)
            for text in (
                found.finding,
                environment_title(found.environment),
                points(found.iqm),
                f"{found.improvement.value:.0%} ({found.improvement.low:.0%} to {found.improvement.high:.0%})",
                points(found.paired),
                points(found.area),
                "yes" if found.equivalent else "not shown",
            )
        ]
        for found in results.differences
    ]
    return StudySection("differences", "How much the arms differ", columns, rows, notes=[_DIFFERENCES_NOTE])


def _paper(results: StudyResults, configs: Sequence[ArmConfig]) -> StudySection:
    titles = {arm.name: arm.title for arm in results.plan.arms}
    columns = [Column("Quantity", "row header"), Column("Environment"), Column("Arm"), Column("Paper")]
    rows = [
        [
            cell(reported.what),
            cell(environment_title(reported.environment) if reported.environment else NONE),
            cell(titles.get(reported.arm, NONE)),
            cell(reported.value),
        ]
        for reported in results.reported
    ]
    note = other_estimators(results.plan.name, configs)
    return StudySection("paper", "Figures of the paper", columns, rows, notes=[note] if note else [])


# -- settings and runs ------------------------------------------------------------------------------------------------


def _method(facts: Mapping[str, Piece], configs: Sequence[ArmConfig]) -> StudySection:
    rows: list[list[Cell]] = [[cell(name), [value]] for name, value in facts.items() if value.text or value.code]
    rows += [[cell(name), cell(value)] for name, value in shared_settings(configs).items()]
    return StudySection("method", "Method", [Column("", "row header"), Column("")], rows)


def _settings(configs: Sequence[ArmConfig], label: Callable[[str], str]) -> StudySection:
    """List the settings in which the arms differ: one in each row, or one in each column if there are many arms."""
    arms, titles = differing_settings(configs), {config.name: config.arm for config in configs}
    names = list(dict.fromkeys(name for settings in arms.values() for name in settings))
    title = "Settings in which the arms differ"
    if len(arms) > MAX_ARM_COLUMNS:
        columns = [Column("Arm", "row header"), *(Column(label(name), code=name) for name in names)]
        rows = [
            [cell(titles[arm]), *(cell(settings.get(name, NONE)) for name in names)] for arm, settings in arms.items()
        ]
        return StudySection("settings", title, columns, rows if names else [])
    columns = [Column("Setting", "row header"), *(Column(titles[arm]) for arm in arms)]
    by_setting: list[list[Cell]] = []
    for name in names:
        values = [settings.get(name, NONE) for settings in arms.values()]
        common = max(values, key=values.count)
        several = 2 * values.count(common) > len(values)
        by_setting.append(
            [
                [Piece(label(name), code=name)],
                *([Piece(value, mark="unusual" if several and value != common else "")] for value in values),
            ]
        )
    return StudySection("settings", title, columns, by_setting)


def _runs(rows: Sequence[RunRow], results: StudyResults) -> StudySection:
    """List the runs with their addresses, if they have names."""
    titles = {arm.name: arm.title for arm in results.plan.arms}
    columns = [
        Column("Run", "row header"),
        Column("Arm"),
        Column("Environment"),
        Column("Seed", "figure"),
        Column("State"),
        Column("Success", "figure"),
    ]
    lines: list[list[Cell]] = [
        [
            [Piece(row.title, row.link)],
            cell(titles.get(row.outcome.arm, row.outcome.arm)),
            cell(environment_title(row.outcome.environment)),
            cell(str(row.outcome.seed)),
            cell(row.state),
            cell(NONE if row.success is None else share(row.success)),
        ]
        for row in rows
        if row.title
    ]
    return StudySection("runs", "Runs", columns, lines)
