"""A study as one of its readers sees it: results, addresses of runs, digest of what may change."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Q
from django.urls import reverse

from trainer.studies.document import Document
from trainer.studies.results import StudyResults
from trainer.studies.study_document import study_document
from webapp.core import formatting
from webapp.runs.models import Run
from webapp.studies.access import counted
from webapp.studies.models import Study, StudyRun
from webapp.studies.study_outcomes import members_of
from webapp.studies.study_plan import short_label
from webapp.studies.study_results import arm_configs, results_of
from webapp.studies.study_spec import SearchSpec, read_spec
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

    def results(self, absolute: Callable[[str], str] = str) -> StudyResults:
        """Results with the addresses of the runs that the reader may open, made complete by `absolute`."""

        def address(member: StudyRun) -> str:
            return absolute(reverse("run", args=[member.run.slug])) if member.run_id in self.readable else ""

        return results_of(self.study, self.members, address)

    def document(self, results: StudyResults) -> Document:
        """The study as a document. One query."""
        return study_document(
            self.study.title,
            results,
            arm_configs(self.members),
            lead=[f"{formatting.STATES[self.state]}: {self.counts_words}."],
            picture="Curves of the arms, mean ± standard deviation",
            label=short_label,
        )

    @property
    def planned(self) -> int:
        """Number of runs; a search launches them one after the other."""
        spec = read_spec(self.study.spec)
        return spec.trials * spec.seeds if isinstance(spec, SearchSpec) else len(self.members)

    @property
    def ended(self) -> int:
        """Number of runs that have ended."""
        return sum(member.run.state in Run.ENDED for member in self.members)

    @property
    def state(self) -> str:
        """State as pages show it: "queued" until the first run has started."""
        queued = bool(self.members) and all(member.run.state == Run.State.QUEUED for member in self.members)
        return Run.State.QUEUED if queued and self.study.state == Study.State.RUNNING else self.study.state

    @property
    def counts_words(self) -> str:
        """The size with the states of runs, e.g. “18 runs: 4 finished, 2 running, 12 queued”."""
        counts = Counter(formatting.STATES[member.run.shown_state].lower() for member in self.members)
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        return formatting.plural(self.planned, "run") + (f": {states}" if states else "")

    @property
    def active(self) -> bool:
        """Whether results may still change."""
        idle = (*Run.ENDED, Run.State.PAUSED)
        return self.study.state == Study.State.RUNNING or any(member.run.state not in idle for member in self.members)

    @property
    def digest(self) -> str:
        """Changes whenever the page would."""
        facts = [(self.study.state, self.study.problem, self.study.title, self.study.visibility, self.hidden)]
        runs = [(one.run_id, one.run.seq, one.run.state, one.run.requested, one.run.title) for one in self.members]
        stopped = [(one.arm_id, bool(one.arm.stopped)) for one in self.members]
        return hashlib.sha256(repr((facts, runs, stopped)).encode()).hexdigest()[:20]


def seen_by(user: User | AnonymousUser, study: Study) -> SeenStudy:
    """The study as this reader sees it. Three queries."""
    condition = counted(user)
    members = members_of(study, condition)
    hidden = StudyRun.objects.filter(arm__study=study).count() - len(members)
    of_study = Q(study_run__arm__study=study)
    readable = set(Run.objects.visible_to(user).filter(of_study).values_list("pk", flat=True))
    return SeenStudy(study, members, hidden, readable)
