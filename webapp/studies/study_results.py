"""Results of a study so far: arms, verdicts, the paper's figures, settings in which arms differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, stdev

from pydantic import ValidationError

from trainer.config.run import RunConfig
from trainer.metrics import registry
from trainer.studies import catalogue, cell_settings
from trainer.studies.limits import limits
from trainer.studies.method import ArmConfig, across_environments, shared_settings
from trainer.studies.outcomes import UPDATE, Outcome, puzzle_note, window_of
from trainer.studies.paper import REPORTED, Reported, other_estimators
from trainer.studies.study import SUCCESS, Arm, Finding
from trainer.studies.study import Study as Plan
from trainer.studies.tables import of_seeds, spread
from webapp.core import formatting
from webapp.explorer.compare import Difference, DifferenceGroup, differences
from webapp.runs.curves import Point, value_words
from webapp.runs.models import Run
from webapp.studies.models import Study, StudyArm, StudyRun
from webapp.studies.progress import better_of, value_at
from webapp.studies.study_outcomes import CellResult, read_cells, with_puzzles
from webapp.studies.study_plan import short_label, shown_value
from webapp.studies.study_spec import CatalogueSpec, SearchSpec, Spec, read_spec

MAX_COMPARED_ARMS = 12
"""Arms of a grid whose differences from its first arm are tested: with more, no correction leaves any power."""
MAX_DIFFERENCES = 8
"""Arms of the catalogue in the table of settings."""


@dataclass(frozen=True)
class ArmResult:
    """An arm in one environment. Success counts the last evaluation of each run, complete or not."""

    arm: StudyArm
    environment: str
    cells: list[CellResult]
    reported: list[Reported]
    metric: str

    @property
    def colour(self) -> int:
        """Number of its colour, from 1."""
        return (self.arm.number - 1) % 8 + 1

    @property
    def environment_title(self) -> str:
        return cell_settings.environment_title(self.environment)

    @property
    def successes(self) -> list[float]:
        return [cell.success for cell in self.cells if cell.success is not None]

    @property
    def mean(self) -> float | None:
        return fmean(self.successes) if self.successes else None

    @property
    def deviation(self) -> float | None:
        return stdev(self.successes) if len(self.successes) > 1 else None

    @property
    def before(self) -> float | None:
        values = [cell.before for cell in self.cells if cell.before is not None]
        return fmean(values) if values else None

    @property
    def complete(self) -> int:
        """Runs that ended as planned."""
        return sum(cell.complete for cell in self.cells)

    @property
    def collapse_words(self) -> str:
        """Collapsed seeds, with their iterations, as in “2 of 3: 17, 31”."""
        return of_seeds([cell.outcome.collapse for cell in self.cells if cell.run.iteration])

    @property
    def trap_words(self) -> str:
        return of_seeds([cell.outcome.trapped for cell in self.cells if cell.run.iteration])

    @property
    def seconds(self) -> float | None:
        values = [cell.outcome.seconds for cell in self.cells if cell.outcome.seconds]
        return fmean(values) if values else None

    @property
    def value(self) -> float | None:
        """Mean over runs of the study's metric, at the present ends of the runs."""
        values = []
        for cell in self.cells:
            points = [Point(at, at, value) for at, value in cell.outcome.curves.get(self.metric, {}).items()]
            value = value_at(points, None, window_of(self.metric))
            if value is not None:
                values.append(value)
        return fmean(values) if values else None

    @property
    def value_words(self) -> str:
        return "–" if self.value is None else value_words(registry.spec_of(self.metric), self.value)

    @property
    def paper(self) -> str:
        return "; ".join(f"{one.what}: {one.value}" for one in self.reported)

    @property
    def changes(self) -> list[tuple[str, str]]:
        """(label, value) of the settings in which the arms of a grid or a search differ."""
        return [(short_label(name), shown_value(value)) for name, value in self.arm.changes.items()]


@dataclass(frozen=True)
class VerdictSoFar:
    """Verdict on a claim from the complete runs. `complete` of `planned` seeds of the arm with fewer of them."""

    finding: str
    environment: str
    word: str
    figures: str
    p: float | None
    corrected: float | None
    complete: int
    planned: int

    @property
    def firm(self) -> bool:
        """Whether all planned seeds are in: looking earlier makes chance findings more likely."""
        return self.complete >= self.planned

    @property
    def environment_title(self) -> str:
        return cell_settings.environment_title(self.environment)

    @property
    def seeds_words(self) -> str:
        return f"{self.complete} of {formatting.plural(self.planned, 'seed')}"


@dataclass(frozen=True)
class StudyResults:
    """Everything that the page and the exports of a study show."""

    study: Study
    spec: Spec
    plan: Plan
    cells: list[CellResult]
    hidden: int = 0
    """Private runs that the reader may not see; nothing here counts them."""
    arms: list[StudyArm] = field(default_factory=list)

    @cached_property
    def metric(self) -> str:
        return SUCCESS if isinstance(self.spec, CatalogueSpec) else self.spec.metric

    @cached_property
    def rows(self) -> list[ArmResult]:
        """Arms by environment; those of a search best first."""
        reported = REPORTED.get(self.plan.name, ())
        found = []
        for environment in self.plan.environments:
            for arm in self.arms:
                cells = [cell for cell in self.cells if (cell.arm.pk, cell.environment) == (arm.pk, environment)]
                if not cells and len(self.plan.environments) > 1 and not isinstance(self.spec, CatalogueSpec):
                    continue  # an arm of a grid over environments is trained in one of them
                own = [one for one in reported if (one.environment or environment, one.arm) == (environment, arm.name)]
                found.append(ArmResult(arm, environment, cells, own, self.metric))
        if isinstance(self.spec, SearchSpec):
            sign = -1.0 if better_of(self.metric) == "up" else 1.0
            found.sort(key=lambda row: (row.value is None, sign * (row.value or 0.0)))
        return found

    @cached_property
    def counts(self) -> dict[str, int]:
        """Shown state of runs → their number."""
        counts: dict[str, int] = {}
        for cell in self.cells:
            counts[cell.run.shown_state] = counts.get(cell.run.shown_state, 0) + 1
        return counts

    @property
    def counts_words(self) -> str:
        """The size with the states of runs, e.g. “18 runs: 4 finished, 2 running, 12 queued”."""
        counts = ", ".join(f"{count} {formatting.STATES[state].lower()}" for state, count in self.counts.items())
        return formatting.plural(self.planned_runs, "run") + (f": {counts}" if counts else "")

    @property
    def metric_title(self) -> str:
        return registry.spec_of(self.metric).title

    @property
    def planned_runs(self) -> int:
        if isinstance(self.spec, SearchSpec):
            return self.spec.trials * self.spec.seeds
        return len(self.cells)

    @property
    def active(self) -> bool:
        """Whether results may still change."""
        idle = (*Run.ENDED, Run.State.PAUSED)
        return self.study.state == Study.State.RUNNING or any(cell.run.state not in idle for cell in self.cells)

    @property
    def suites(self) -> tuple[str, ...]:
        return self.plan.all_suites

    def suite_rows(self) -> list[tuple[StudyArm, list[str]]]:
        """Success of each arm in the further suites, as text."""
        rows = []
        for arm in self.arms:
            own = [cell.outcome for cell in self.cells if cell.arm.pk == arm.pk]
            finals = [[found.success for outcome in own if (found := outcome.final(suite))] for suite in self.suites]
            rows.append((arm, [spread(values) for values in finals]))
        return rows

    @property
    def reported(self) -> Sequence[Reported]:
        """Figures of the paper, for studies of its catalogue."""
        return REPORTED.get(self.plan.name, ())

    def paper_rows(self) -> list[tuple[str, str, str, str]]:
        """(quantity, environment, arm, figure of the paper)"""
        titles = {arm.name: arm.title for arm in self.arms}
        return [
            (
                one.what,
                cell_settings.environment_title(one.environment) if one.environment else "–",
                titles.get(one.arm, "–"),
                one.value,
            )
            for one in self.reported
        ]

    @cached_property
    def judged(self) -> list[Outcome]:
        """Outcomes of the runs that are complete, on which verdicts rest. One query."""
        return with_puzzles([cell for cell in self.cells if cell.complete])

    @property
    def puzzle_note(self) -> str:
        """For which puzzles verdicts on success hold, where it is for these only."""
        return puzzle_note(self.judged) if self.plan.findings else ""

    @cached_property
    def verdicts(self) -> list[VerdictSoFar]:
        """Claims of the study, tested over the runs that are complete."""
        if not self.plan.findings:
            return []
        from trainer.studies.verdicts import verdicts  # scipy: tens of megabytes that other pages do without

        found = verdicts(self.plan, self.judged)
        sides = [
            (finding, environment)
            for finding in self.plan.findings
            for environment in finding.environments or self.plan.environments
        ]
        return [
            VerdictSoFar(
                one.finding,
                environment,
                one.word,
                one.figures,
                one.p,
                one.corrected,
                min(_count(self.judged, environment, name) for name in (finding.arm, finding.other) if name),
                self._planned_seeds(environment),
            )
            for one, (finding, environment) in zip(found, sides, strict=True)
        ]

    def _planned_seeds(self, environment: str) -> int:
        """Seeds of each arm in an environment."""
        if isinstance(self.spec, CatalogueSpec):
            return catalogue.find(self.spec.study).seed_count(self.spec.scale, environment, self.spec.seeds)
        return self.spec.seeds

    @cached_property
    def firsts(self) -> dict[tuple[int, str], Run]:
        """The first run of each arm in each environment, with its settings. One query."""
        found: dict[tuple[int, str], int] = {}
        for cell in self.cells:
            found.setdefault((cell.arm.pk, cell.environment), cell.run.pk)
        runs = Run.objects.in_bulk(list(found.values()))
        return {place: runs[key] for place, key in found.items()}

    def setting_groups(self) -> tuple[list[StudyArm], list[DifferenceGroup]]:
        """Arms of a study of the catalogue, and the settings in which their first runs differ in some environment."""
        if not isinstance(self.spec, CatalogueSpec):
            return [], []
        present = {arm for arm, _ in self.firsts}
        arms = [arm for arm in self.arms if arm.pk in present][:MAX_DIFFERENCES]
        places = [place for place in self.firsts if place[0] in {arm.pk for arm in arms}]
        groups = []
        for group in differences([self.firsts[place] for place in places]):
            between_arms = [
                replace(one, values=values)
                for one in group.differences
                if (values := _values_of_arms(one, places, arms)) is not None
            ]
            if between_arms:
                groups.append(DifferenceGroup(group.title, between_arms))
        return arms, groups

    @cached_property
    def arm_configs(self) -> list[ArmConfig]:
        """Settings of each arm in each environment, without runs of another version whose settings do not fit."""
        arms, found = {arm.pk: arm for arm in self.arms}, []
        for (key, environment), run in self.firsts.items():
            try:
                config = RunConfig.model_validate(run.config)
            except ValidationError:
                continue
            found.append(ArmConfig(environment, arms[key].title, arms[key].name, config))
        return found

    @property
    def limits(self) -> str:
        """What the study cannot show at its scale."""
        return limits(self.plan.name, self.spec.scale) if isinstance(self.spec, CatalogueSpec) else ""

    @property
    def paper_note(self) -> str:
        """Where arms learn with another estimator than in the paper."""
        return other_estimators(self.plan.name, self.arm_configs) if self.reported else ""


def _values_of_arms(one: Difference, places: Sequence[tuple[int, str]], arms: Sequence[StudyArm]) -> list[str] | None:
    """A setting of each arm, across environments; None if arms differ in no environment."""
    values: dict[str, dict[int, str]] = {}
    for (arm, environment), value in zip(places, one.values, strict=True):
        values.setdefault(environment, {})[arm] = value
    if all(len(set(own.values())) == 1 for own in values.values()):
        return None
    return [
        across_environments({environment: own[arm.pk] for environment, own in values.items() if arm.pk in own})
        for arm in arms
    ]


def results_of(study: Study, members: Sequence[StudyRun], hidden: int = 0) -> StudyResults:
    """Results of a study from these of its runs. Five queries."""
    spec = read_spec(study.spec)
    arms = list(study.arms.all())
    plan = _plan(study, spec, arms)
    metrics = [finding.metric for finding in plan.findings]
    if any(finding.claim == "less_update_time" for finding in plan.findings):
        metrics.append(UPDATE)
    if not isinstance(spec, CatalogueSpec):
        metrics.append(spec.metric)
    return StudyResults(study, spec, plan, read_cells(members, metrics), hidden, arms)


def _plan(study: Study, spec: Spec, arms: Sequence[StudyArm]) -> Plan:
    """The study as the trainer's tests take it: of the catalogue, or with one claim for each arm but the first."""
    if isinstance(spec, CatalogueSpec):
        return catalogue.STUDIES[spec.study]
    environments = dict.fromkeys(
        StudyRun.objects.filter(arm__study=study).order_by("pk").values_list("environment", flat=True)
    )
    names = tuple(environments) or (str(spec.config["environment"]["name"]),)
    variants = tuple(Arm(arm.name, arm.title, "starpo_s") for arm in arms)
    findings: tuple[Finding, ...] = ()
    if not isinstance(spec, SearchSpec) and len(arms) <= MAX_COMPARED_ARMS and len(names) == 1:
        findings = tuple(
            Finding(f"{arm.title}: more successes than {arms[0].title}", "higher", arm.name, arms[0].name)
            for arm in arms[1:]
        )
    suites = tuple(spec.config.get("evaluation", {}).get("suites", ()))
    curves = tuple(dict.fromkeys((spec.metric, SUCCESS, "reward/mean")))
    return Plan(study.slug, study.title, "", names, variants, findings, curves=curves, suites=suites)


def _count(outcomes: Sequence[Outcome], environment: str, arm: str) -> int:
    return sum((one.environment, one.arm) == (environment, arm) for one in outcomes)


def settings_of(results: StudyResults) -> dict[str, str]:
    """Settings of the runs, for the method of an export."""
    return shared_settings(results.arm_configs)
