"""A study for one of its readers: results, addresses of runs, and a digest to detect changes."""

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
from webapp.studies.study_outcomes import load_members
from webapp.studies.study_plan import short_label
from webapp.studies.study_results import arm_configs, load_results
from webapp.studies.study_spec import SearchSpec, read_spec
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


@dataclass(frozen=True)
class SeenStudy:
    """Runs that are counted on the reader's page, and runs that the reader may open."""

    study: Study
    members: list[StudyRun]
    hidden: int
    readable: set[int]

    def results(self, absolute: Callable[[str], str] = str) -> StudyResults:
        """Return results with the addresses of the runs that the reader may open, completed by `absolute`."""

        def address(member: StudyRun) -> str:
            return absolute(reverse("run", args=[member.run.slug])) if member.run_id in self.readable else ""

        return load_results(self.study, self.members, address)

    def document(self, results: StudyResults) -> Document:
        """Return the study as a document. One query."""
        return study_document(
            self.study.title,
            results,
            arm_configs(self.members),
            lead=[f"{formatting.STATES[self.state]}: {self.counts_text}."],
            picture="Curves of the arms, mean ± standard deviation",
            label=short_label,
        )

    @property
    def planned(self) -> int:
        """Number of runs; a search launches them one after another."""
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
    def counts_text(self) -> str:
        """The size with the states of runs, e.g. “18 runs: 4 finished, 2 running, 12 queued”."""
        counts = Counter(formatting.STATES[member.run.shown_state].lower() for member in self.members)
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        return formatting.plural(self.planned, "run") + (f": {states}" if states else "")

    @property
    def active(self) -> bool:
        """True if results may still change."""
        idle = (*Run.ENDED, Run.State.PAUSED)
        return self.study.state == Study.State.RUNNING or any(member.run.state not in idle for member in self.members)

    @property
    def digest(self) -> str:
        """A digest that changes whenever the page would."""
        facts = [(self.study.state, self.study.problem, self.study.title, self.study.visibility, self.hidden)]
        runs = [
            (member.run_id, member.run.seq, member.run.state, member.run.requested, member.run.title)
            for member in self.members
        ]
        stopped = [(member.arm_id, bool(member.arm.stopped)) for member in self.members]
        return hashlib.sha256(repr((facts, runs, stopped)).encode()).hexdigest()[:20]


def seen_by(user: User | AnonymousUser, study: Study) -> SeenStudy:
    """Return the study for this reader. Three queries."""
    condition = counted(user)
    members = load_members(study, condition)
    hidden = StudyRun.objects.filter(arm__study=study).count() - len(members)
    of_study = Q(study_run__arm__study=study)
    readable = set(Run.objects.visible_to(user).filter(of_study).values_list("pk", flat=True))
    return SeenStudy(study, members, hidden, readable)
