"""Results of a study so far, from its runs and its plan, for the trainer's verdicts and document."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import ValidationError

from trainer.config.removed import stored_config
from trainer.studies import catalogue
from trainer.studies.method import ArmConfig
from trainer.studies.outcomes import UPDATE
from trainer.studies.results import RunRow, StudyResults
from trainer.studies.study import SUCCESS, Arm, Finding
from trainer.studies.study import Study as Plan
from webapp.core import formatting
from webapp.runs.models import Run
from webapp.studies.models import Study, StudyArm, StudyRun
from webapp.studies.study_outcomes import add_puzzles, read_outcomes
from webapp.studies.study_spec import CatalogueSpec, SearchSpec, Spec, read_spec

MAX_COMPARED_ARMS = 12
"""Maximum number of arms whose differences from the first arm are tested: with more, corrections leave no power."""
Address = Callable[[StudyRun], str]
"""Address of a run, or "" if the reader may not open it."""


def load_results(study: Study, members: Sequence[StudyRun], address: Address = lambda member: "") -> StudyResults:
    """Return the results of a study from these runs. At most seven queries."""
    spec = read_spec(study.spec)
    arms = list(study.arms.all())
    plan = _plan(study, spec, arms)
    metrics = [finding.metric for finding in plan.findings]
    if any(finding.claim == "less_update_time" for finding in plan.findings):
        metrics.append(UPDATE)
    if not isinstance(spec, CatalogueSpec):
        metrics.append(spec.metric)
    rows = [
        RunRow(
            outcome,
            key=member.run_id,
            complete=member.run.state == Run.State.FINISHED,
            state=formatting.STATES[member.run.shown_state],
            iterations=member.run.iterations,
            title=member.run.title,
            link=address(member),
        )
        for member, outcome in zip(members, read_outcomes(members, metrics), strict=True)
    ]
    if plan.findings:
        add_puzzles({row.key: row.outcome for row in rows if row.complete})
    return StudyResults(
        plan,
        rows,
        spec.seeds,
        scale=spec.scale if isinstance(spec, CatalogueSpec) else None,
        metric="" if isinstance(spec, CatalogueSpec) else spec.metric,
        ranked=isinstance(spec, SearchSpec),
        stopped={arm.name: arm.stopped for arm in arms if arm.stopped},
    )


def _plan(study: Study, spec: Spec, arms: Sequence[StudyArm]) -> Plan:
    """Return the trainer's plan of the study: from the catalogue, or with a claim for each arm after the first."""
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


def arm_configs(members: Sequence[StudyRun]) -> list[ArmConfig]:
    """Return the valid settings of each arm in each environment, for this version. One query."""
    firsts: dict[tuple[int, str], StudyRun] = {}
    for member in members:
        firsts.setdefault((member.arm_id, member.environment), member)
    keys = [member.run_id for member in firsts.values()]
    settings = dict(Run.objects.filter(pk__in=keys).values_list("pk", "config"))
    result = []
    for (_, environment), member in firsts.items():
        try:
            config = stored_config(settings[member.run_id])
        except ValidationError:
            continue
        result.append(ArmConfig(environment, member.arm.title, member.arm.name, config))
    return result
