"""A study as files: its document as Markdown, its charts as SVG, its runs as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from trainer.studies.document import markdown
from trainer.studies.results import RunRow
from webapp.core.formatting import no_formula
from webapp.studies.arm_charts import build_charts, picture
from webapp.studies.models import StudyRun
from webapp.studies.seen_study import SeenStudy

FORMATS = {"markdown": ("text/markdown", "md"), "svg": ("image/svg+xml", "svg"), "csv": ("text/csv", "csv")}
"""Name of an export → its media type and file extension."""


def exported(seen: SeenStudy, kind: str, absolute: Callable[[str], str]) -> str:
    """Return the study in one of FORMATS, with the runs that its reader may see."""
    results = seen.results(absolute)
    match kind:
        case "markdown":
            return markdown(seen.document(results), f"study-{seen.study.slug}.svg")
        case "svg":
            return picture(seen.study.title, build_charts(results))
        case "csv":
            return _as_csv(results.rows, {member.run_id: member for member in seen.members})
    raise ValueError(f"a study is exported as {', '.join(FORMATS)}, not {kind!r}")


def _as_csv(rows: Sequence[RunRow], members: Mapping[int, StudyRun]) -> str:
    """Write one line per run, with the settings in which arms differ. `members` are by primary key of the run."""
    names = list(dict.fromkeys(name for member in members.values() for name in member.arm.changes))
    text = io.StringIO()
    writer = csv.writer(text)
    header = ["arm", "arm_title", "environment", "seed", "run", "address", "state", "iteration", "iterations"]
    writer.writerow([*header, "success_before", "success", "collapsed_at", "detected_at", "seconds", "stopped", *names])
    for row in rows:
        member, outcome = members[row.key], row.outcome
        run, arm = member.run, member.arm
        values = [arm.name, arm.title, member.environment, member.seed, run.slug if row.link else "", row.link]
        values += [run.shown_state, run.iteration, run.iterations, row.before, row.success]
        values += [outcome.collapse, outcome.trapped, round(outcome.seconds, 1), arm.stopped]
        writer.writerow([_plain(value) for value in (*values, *(arm.changes.get(name) for name in names))])
    return text.getvalue()


def _plain(value: object) -> object:
    return no_formula(value) if isinstance(value, str) else "" if value is None else value
