"""Conformance to the OpenAPI document: no generated request causes a server error or a response that violates it.

Every operation is called with a write token and existing ids on a real database. Each call is rolled back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS
from schemathesis.config import GenerationConfig
from schemathesis.core.parameters import ParameterLocation

from tests.webapp.api.api_clients import program
from tests.webapp.conftest import People
from tests.webapp.observed_images import observe
from tests.webapp.page_requests import play
from webapp.annotations.actions import do_comment
from webapp.api.root import api
from webapp.branching.models import BranchQuestion, EvaluationQuestion
from webapp.notifications.models import Rule
from webapp.notifications.rule_actions import do_create_rule
from webapp.reports.actions import do_create_report
from webapp.runs.models import Run
from webapp.studies.actions import do_create_study
from webapp.studies.study_plan import planned
from webapp.studies.study_spec import CatalogueSpec
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.nightly
EXAMPLES = 10
WITH_RULES = {
    "import_run": "the body must be a journal",
    "append_journal": "the body must be lines of a journal",
    "put_image": "the body must be an image with the hash of its address",
    "list_runs": "cursors are signed",
    "list_audit": "cursors are signed",
    "create_run": "settings depend on each other",
    "create_group": "likewise",
    "clone_run": "settings depend on each other",
    "delete_run": "the slug must be said twice",
    "get_metric_points": "a range must not end before it begins",
    "list_trajectories": "ranges, cursors",
    "list_reports": "cursors are signed",
    "create_report": "texts are limited",
    "update_report": "a text needs the version that was read",
    "list_studies": "cursors are signed",
    "create_study": "settings depend on each other, and on the kind of study",
    "create_share": "must end in the future, at a turn that exists",
    "compute_trajectory_tokens": "the run's weights must be on this site",
    "ask_question": "the attempt must have the turn, and its environment must be playable again",
    "list_questions": "cursors are signed",
    "create_comment": "must be on a turn that exists",
    "tag_trajectory": "needs a letter or a digit",
    "create_alert": "settings depend on each other",
    "update_alert": "likewise",
    "list_models": "the preset must exist",
    "install_model": "the model must be in the catalogue, and a worker must run",
    "remove_model": "must be installed on a live worker",
    "compare_runs": "no run may be named twice, and all must exist",
    "compare_puzzle": "likewise, and the runs must have been evaluated",
    "get_generalization": "only some runs hold a matrix",
    "export_run": "ranges; the journal must be on this machine",
}
"""Operations that refuse some schema-valid requests, and why."""

schemathesis.serializer.alias(
    ["application/x-ndjson", "application/gzip", "image/png", "image/jpeg", "image/webp"], "application/octet-stream"
)


def document() -> schemathesis.BaseSchema:
    raw = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/")))
    found = schemathesis.openapi.from_dict(raw)
    found.app = WSGIHandler()
    found.config.generation = GenerationConfig(with_security_parameters=False)
    return found


schema = document()


@dataclass(frozen=True)
class PathValues:
    """Values of path parameters."""

    slugs: dict[str, str]
    names: dict[str, str]
    token: str
    sha256: str
    secret: str


@pytest.fixture
def path_values(people: People, run: Run) -> PathValues:
    play(run, 1)
    found = Trajectory.objects.filter(run=run)[0]
    link = do_share_trajectory(found, people.owner)
    image = observe(found).sha256
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED, imported=True)
    secret = program(people.team, people.owner).secret
    report = do_create_report(people.team, people.owner, "Where it broke", "", frozenset())
    spec = CatalogueSpec(study="figure-9", scale="smoke", seeds=1)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    comment = do_comment(found, people.owner, "Odd.")
    rule = do_create_rule(people.team, people.owner, name="Failures", events=["failed"], channel=Rule.Channel.INBOX)
    slugs = {"runs": run.slug, "trajectories": found.slug, "reports": report.slug, "studies": study.slug}
    question = BranchQuestion.objects.create(
        trajectory=found, kind="value", samples=4, total=4, requested_by=people.owner, requested_at=timezone.now()
    )
    about_evaluation = EvaluationQuestion.objects.create(
        run=run, kind="thoughts", suite="Sokoban", samples=8, most_attempts=24, iteration=0, requested_at=timezone.now()
    )
    slugs |= {"branches": question.slug, "questions": about_evaluation.slug}
    slugs |= {"comments": comment.slug, "alerts": rule.slug, "teams": people.team.slug}
    return PathValues(
        slugs,
        {"models": "smollm2-135m", "environments": "Bandit", "presets": "bandit-starpo_s-pocket"},
        link.token,
        image,
        secret,
    )


@pytest.fixture
def one_connection() -> Iterator[None]:
    """Requests use the test's transaction: nothing closes its connection between them, as with Django's own client."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def use_existing_values(case: schemathesis.Case, path_values: PathValues) -> None:
    """Let a path that fits the schema name something that exists; half of the deletions are confirmed."""
    component = case.meta.components.get(ParameterLocation.PATH) if case.meta else None
    if component is not None and component.mode.is_negative:
        return
    kind = case.path.split("/")[2]
    for name, known in (
        ("slug", path_values.slugs),
        ("name", path_values.names),
        ("token", {"shares": path_values.token}),
    ):
        if name in case.path_parameters and kind in known:
            case.path_parameters[name] = known[kind]
    if "sha256" in case.path_parameters:
        case.path_parameters["sha256"] = path_values.sha256
    if case.operation.definition.raw["operationId"] == "delete_run" and len(str(case.query)) % 2:
        case.query["confirm"] = path_values.slugs["runs"]


@pytest.mark.django_db
@schema.parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_response_violates_the_schema(
    case: schemathesis.Case, path_values: PathValues, one_connection: None
) -> None:
    use_existing_values(case, path_values)
    ruled = case.operation.definition.raw["operationId"] in WITH_RULES
    left_out = [CHECKS.get_one("positive_data_acceptance")] if ruled else []
    with transaction.atomic():
        case.call_and_validate(headers={"Authorization": f"Bearer {path_values.secret}"}, excluded_checks=left_out)
        transaction.set_rollback(True)


def test_operations_with_rules_exist() -> None:
    known = {operation.ok().definition.raw["operationId"] for operation in schema.get_all_operations()}
    assert set(WITH_RULES) <= known
