"""A study as files: its page as Markdown, its runs as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator

from trainer.studies.tables import NONE, one_line, p_value, spread, table
from webapp.core import formatting
from webapp.core.formatting import no_formula
from webapp.studies.study_outcomes import CellResult
from webapp.studies.study_results import StudyResults, VerdictSoFar, settings_of
from webapp.studies.study_spec import CatalogueSpec

FORMATS = {"markdown": ("text/markdown", "md"), "svg": ("image/svg+xml", "svg"), "csv": ("text/csv", "csv")}
"""Name of an export → its media type and the ending of its file."""
Address = Callable[[CellResult], str]
"""Address of a run, or "" where the reader may not open it."""


def markdown(results: StudyResults, address: Address, picture: str = "") -> str:
    """The whole study as a document. `picture`: name of the SVG file next to it."""
    study = results.study
    parts = [
        f"# {one_line(study.title)}",
        " ".join(filter(None, [results.plan.question, results.limits])),
        f"{study.get_state_display()}: {results.counts_words}.",
        f"![Curves of the arms, mean ± standard deviation]({picture})" if picture else "",
        "## Results",
        _arms(results),
        _suites(results),
        "Success is that of the last evaluation of each run on fixed prompts, as the mean over seeds ± standard "
        "deviation. Collapsed: the mean success of five iterations fell below half of its best and stayed there. "
        "Detected: iteration at which the Echo Trap detector reported a collapse, also if a rewind took it back.",
        *_verdicts(results),
        *(["## Figures of the paper", _paper(results), results.paper_note] if results.reported else []),
        "## Settings",
        _settings(results),
        "## Runs",
        table(("run", "arm", "environment", "seed", "state", "success"), list(_runs(results, address))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arms(results: StudyResults) -> str:
    paper = bool(results.reported)
    own_metric = not isinstance(results.spec, CatalogueSpec)
    header = [
        "environment",
        "arm",
        "before",
        "after",
        "by seed",
        *([results.metric_title.lower()] if own_metric else []),
    ]
    header += ["complete", "collapsed", "detected", "time of a run", *(["paper"] if paper else [])]
    rows = [
        [
            row.environment_title,
            row.arm.title,
            NONE if row.before is None else formatting.percent(row.before),
            spread(row.successes),
            " ".join(f"{100 * value:.1f}" for value in row.successes) or NONE,
            *([row.value_words] if own_metric else []),
            f"{row.complete} of {len(row.cells)}",
            row.collapse_words,
            row.trap_words,
            NONE if row.seconds is None else formatting.duration(row.seconds),
            *([row.paper or NONE] if paper else []),
        ]
        for row in results.rows
    ]
    return table(header, rows)


def _suites(results: StudyResults) -> str:
    if not results.suites:
        return ""
    rows = [(arm.title, *values) for arm, values in results.suite_rows()]
    return "Evaluated on other suites, without further training:\n\n" + table(("arm", *results.suites), rows)


def _verdicts(results: StudyResults) -> list[str]:
    if not results.verdicts:
        return []
    rows = [
        (
            one.finding,
            one.environment_title,
            verdict_words(one),
            one.figures,
            p_value(one.p),
            p_value(one.corrected),
            one.seeds_words,
        )
        for one in results.verdicts
    ]
    return [
        "## Verdicts",
        table(("claim", "environment", "here", "figures", "p", "p, corrected", "complete"), rows),
        "Tested over the complete runs, all claims together with Holm's correction, at least three seeds of each arm "
        "and a two-sided p value of at most 0.05. A verdict is provisional until all planned seeds are complete: "
        "looking earlier makes chance findings more likely.",
        results.puzzle_note,
    ]


def verdict_words(one: VerdictSoFar) -> str:
    """The verdict, marked while seeds are missing."""
    return one.word if one.firm or one.word == "inconclusive" else f"{one.word} (provisional)"


def _paper(results: StudyResults) -> str:
    return table(("quantity", "environment", "arm", "paper"), results.paper_rows())


def _settings(results: StudyResults) -> str:
    facts = table(("", ""), list(settings_of(results).items()))
    if not isinstance(results.spec, CatalogueSpec):
        rows = [(arm.title, *map(str, arm.changes.values())) for arm in results.arms]
        names = list(results.arms[0].changes) if results.arms else []
        return f"{facts}\n\nThe arms differ in these settings:\n\n" + table(("arm", *names), rows)
    arms, groups = results.setting_groups()
    rows = [
        (difference.name, *(value or NONE for value in difference.values))
        for group in groups
        for difference in group.differences
    ]
    header = ("setting", *(arm.title for arm in arms))
    return f"{facts}\n\nThe arms differ in these settings:\n\n" + table(header, rows)


def _runs(results: StudyResults, address: Address) -> Iterator[tuple[str, ...]]:
    for cell in results.cells:
        link = address(cell)
        title = one_line(cell.run.title).replace("[", "\\[").replace("]", "\\]")
        yield (
            f"[{title}]({link})" if link else title,
            cell.arm.title,
            cell.outcome.environment,
            str(cell.seed),
            formatting.STATES[cell.run.shown_state],
            NONE if cell.success is None else formatting.percent(cell.success),
        )


def as_csv(results: StudyResults, address: Address) -> str:
    """One line per run, with the settings in which arms differ."""
    names = list(dict.fromkeys(name for arm in results.arms for name in arm.changes))
    text = io.StringIO()
    writer = csv.writer(text)
    header = ["arm", "arm_title", "environment", "seed", "run", "address", "state", "iteration", "iterations"]
    writer.writerow([*header, "success_before", "success", "collapsed_at", "detected_at", "seconds", "stopped", *names])
    for cell in results.cells:
        outcome = cell.outcome
        link = address(cell)
        values = [cell.arm.name, cell.arm.title, cell.environment, cell.seed, cell.run.slug if link else "", link]
        values += [cell.run.shown_state, cell.run.iteration, cell.run.iterations, cell.before, cell.success]
        values += [outcome.collapse, outcome.trapped, round(outcome.seconds, 1), cell.arm.stopped]
        writer.writerow([_plain(value) for value in (*values, *(cell.arm.changes.get(name) for name in names))])
    return text.getvalue()


def _plain(value: object) -> object:
    return no_formula(value) if isinstance(value, str) else "" if value is None else value
