"""A study as one of its readers sees it: results, addresses of runs, digest of what may change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Q
from django.urls import reverse

from webapp.runs.models import Run
from webapp.studies.access import counted
from webapp.studies.arm_charts import charts_of, picture
from webapp.studies.models import Study, StudyRun
from webapp.studies.study_export import FORMATS, Address, as_csv, markdown
from webapp.studies.study_outcomes import CellResult, members_of
from webapp.studies.study_results import StudyResults, results_of
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


@dataclass(frozen=True)
class SeenStudy:
    """Runs of a study that the reader's page counts, and what the reader may open."""

    study: Study
    members: list[StudyRun]
    hidden: int
    readable: set[int]

    def results(self) -> StudyResults:
        return results_of(self.study, self.members, self.hidden)

    @property
    def digest(self) -> str:
        """Changes whenever the page would."""
        facts = [(self.study.state, self.study.problem, self.study.title, self.study.visibility, self.hidden)]
        runs = [(one.run_id, one.run.seq, one.run.state, one.run.requested, one.run.title) for one in self.members]
        stopped = [(one.arm_id, bool(one.arm.stopped)) for one in self.members]
        return hashlib.sha256(repr((facts, runs, stopped)).encode()).hexdigest()[:20]

    def addresses(self, absolute: Callable[[str], str]) -> Address:
        """Function to the absolute address of a run, or "" where the reader may not open it."""

        def address(cell: CellResult) -> str:
            return absolute(reverse("run", args=[cell.run.slug])) if cell.run.pk in self.readable else ""

        return address


def seen_by(user: User | AnonymousUser, study: Study) -> SeenStudy:
    """The study as this reader sees it. Three queries."""
    condition = counted(user)
    members = members_of(study, condition)
    hidden = StudyRun.objects.filter(arm__study=study).count() - len(members)
    of_study = Q(study_run__arm__study=study)
    readable = set(Run.objects.visible_to(user).filter(of_study).values_list("pk", flat=True))
    return SeenStudy(study, members, hidden, readable)


def exported(seen: SeenStudy, kind: str, absolute: Callable[[str], str]) -> str:
    """The study in one of FORMATS, with the runs that its reader sees."""
    results, address = seen.results(), seen.addresses(absolute)
    match kind:
        case "markdown":
            return markdown(results, address, f"study-{seen.study.slug}.svg")
        case "svg":
            return picture(results, charts_of(results))
        case "csv":
            return as_csv(results, address)
    raise ValueError(f"a study is exported as {', '.join(FORMATS)}, not {kind!r}")
