"""Every operation of the API as each kind of caller, listed by the API itself so that none is forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.db import transaction
from django.http import HttpResponse
from django.utils import timezone

from tests.webapp import journal_builder
from tests.webapp.api.api_clients import Callers, Program, problem
from tests.webapp.conftest import People
from tests.webapp.observed_images import image_file, observe
from tests.webapp.page_requests import play
from trainer.journal.protocol import CHECKPOINT_STATE, checkpoint_path
from webapp.annotations.actions import do_comment
from webapp.annotations.models import Comment, Star, Tagging
from webapp.api.root import api
from webapp.branching.models import BranchQuestion, EvaluationQuestion
from webapp.notifications.models import Delivery, Rule
from webapp.notifications.rule_actions import do_create_rule
from webapp.reports.actions import do_create_report
from webapp.runs.models import Evaluation, GeneralizationMatrix, Run, StoredModel, Worker
from webapp.studies.actions import do_create_study
from webapp.studies.models import Study
from webapp.studies.study_plan import planned
from webapp.studies.study_spec import CatalogueSpec
from webapp.teams.actions import do_set_role
from webapp.teams.models import Membership
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Group, ShareLink, TokenArrays, Trajectory

OPEN = {"get_me", "list_environments", "get_environment", "list_presets", "get_preset", "list_workers", "list_runs"} | {
    "list_models",
    "list_reports",
    "list_studies",
    "list_alerts",
}
"""Reads that belong to no team, or to all teams of the user."""
OWN = {"create_run", "create_group", "import_run", "create_report", "create_study", "create_alert", "install_model"}
"""Creation: outsiders create in their own team."""
VIEWERS = {"create_comment"}
"""Changes that need no more than membership of the team."""
AUTHORS = {"remove_model", "delete_run", "update_comment", "delete_comment"}
"""Changes that only the author and admins of the team may make."""
ADMINS = {"list_audit"}
"""Reads for admins of the team only."""
BODIES: dict[str, Any] = {
    "create_run": {"preset": "bandit-starpo_s-pocket"},
    "create_group": {"preset": "bandit-starpo_s-pocket", "seeds": 2},
    "clone_run": {"overrides": {"seed": 2}},
    "update_run": {"title": "Renamed"},
    "control_run": {"action": "cancel"},
    "change_settings": {"changes": {"optimizer.policy_lr": 5e-5}},
    "create_share": {"turn": 0},
    "create_report": {"title": "What broke", "body": "Some *words*."},
    "create_study": {"kind": "catalogue", "study": "figure-9", "scale": "smoke", "seeds": 1},
    "update_study": {"visibility": "link"},
    "control_study": {"action": "pause"},
    "update_report": {"body": "Better words.", "version": 1},
    "ask_question": {"turn": 0, "samples": 2},
    "ask_about_evaluation": {"kind": "thoughts", "suite": "Sokoban"},
    "create_comment": {"text": "Look at this.", "turn": 0},
    "update_comment": {"text": "Look at that."},
    "create_alert": {"name": "Failures", "events": ["failed"], "channel": "inbox"},
    "update_alert": {"name": "All failures"},
}
QUERIES = {
    "get_metric_points": "?name=reward/mean",
    "append_journal": "?offset={offset}",
    "delete_run": "?confirm={run}",
    "compare_runs": "?run={run}",
    "compare_puzzle": "?run={run}&suite=Sokoban",
}
HOOK = "https://hooks.example.org/echoscope"
KINDS = {"export_run": "jsonl", "export_trajectory": "json"}
"""Formats of exports; of others: csv."""


PARTS = {
    "trajectories": "trajectory",
    "reports": "report",
    "studies": "study",
    "comments": "comment",
    "alerts": "rule",
    "branches": "question",
    "questions": "evaluation_question",
    "teams": "team",
}
"""First part of a path → the object that its slug names; others name the run."""


@cache
def document() -> dict[str, Any]:
    """The API's own description."""
    described: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/")))
    return described


def operations() -> Iterator[tuple[str, str, str]]:
    """(id, method, path) of every operation of the API."""
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield operation["operationId"], method.upper(), path


def check_documented(answer: HttpResponse, method: str, path: str) -> None:
    """The response has a documented status, and its JSON fits the documented schema."""
    content = document()["paths"][path][method.lower()]["responses"][str(answer.status_code)].get("content", {})
    if "application/json" in content and answer.get("Content-Type", "").startswith("application/json"):
        documented = content["application/json"]["schema"] | {"components": document()["components"]}
        jsonschema.Draft202012Validator(documented).validate(json.loads(answer.content))


@contextmanager
def operation_undone(subtests: pytest.Subtests, name: str) -> Iterator[None]:
    """One operation as a part of its test, all operations of which use the same objects."""
    with subtests.test(name), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def path_values(people: People, run: Run) -> dict[str, str]:
    """Path parameters of operations: an ended run with a shared trajectory."""
    play(run, 1)
    Run.objects.filter(pk=run.pk).update(state=Run.State.PAUSED)
    found = Trajectory.objects.filter(run=run)[0]
    link = do_share_trajectory(found, people.owner)
    image = observe(found)
    report = do_create_report(people.team, people.owner, "Where it broke", "", frozenset())
    spec = CatalogueSpec(study="figure-9", scale="smoke", seeds=1)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    Group.objects.filter(pk=found.group_id).update(split="eval", suite="Sokoban")
    comment = do_comment(found, people.owner, "Odd.")
    rule = do_create_rule(
        people.team, people.owner, name="Failures", events=["failed"], channel=Rule.Channel.WEBHOOK, url=HOOK
    )
    question = BranchQuestion.objects.create(
        trajectory=found, kind="value", samples=4, total=4, requested_by=people.owner, requested_at=timezone.now()
    )
    about_evaluation = EvaluationQuestion.objects.create(
        run=run,
        kind="corrections",
        suite="Sokoban",
        samples=4,
        most_attempts=9,
        iteration=0,
        requested_at=timezone.now(),
    )
    GeneralizationMatrix.objects.create(run=run, seq=1, time=timezone.now(), policies=[], suites=[], cells=[])
    checkpoint = run.folder / checkpoint_path(1)
    checkpoint.mkdir(parents=True)
    (checkpoint / CHECKPOINT_STATE).write_text("{}")
    now = timezone.now()
    Worker.objects.create(name="worker@here", started_at=now, last_seen_at=now, model_store="store")
    stored = {"store": "store", "state": StoredModel.State.INSTALLED, "requested_by": people.owner}
    StoredModel.objects.create(name="smollm2-135m", **stored)
    run.refresh_from_db()
    return {
        "run": run.slug,
        "team": people.team.slug,
        "trajectory": found.slug,
        "sha256": image.sha256,
        "token": link.token,
        "report": report.slug,
        "study": study.slug,
        "comment": comment.slug,
        "rule": rule.slug,
        "question": question.slug,
        "evaluation_question": about_evaluation.slug,
        "offset": str(run.journal_offset),
    }


def prepared(name: str, path_values: dict[str, str]) -> None:
    """Run and worker are in the state in which the operation can succeed."""
    Worker.objects.update(last_seen_at=timezone.now())  # alive, however long the operations before have taken
    if name == "delete_run":
        Run.objects.update(state=Run.State.FINISHED)
    if name == "ask_about_evaluation":
        Trajectory.objects.filter(slug=path_values["trajectory"]).update(split="eval", iteration=0)
        Evaluation.objects.exclude(iteration=0).delete()
    if name == "compute_trajectory_tokens":
        TokenArrays.objects.all().delete()
    if name in ("append_journal", "put_image"):
        Run.objects.update(imported=True)


def send_request(
    caller: Program, name: str, method: str, path: str, path_values: dict[str, str], tmp_path: Path
) -> Any:
    kind = path.split("/")[2]
    slug = path_values[PARTS.get(kind, "run")]
    names = {"get_environment": "Bandit", "get_preset": "bandit-starpo_s-pocket"}
    names |= {"install_model": "qwen2.5-0.5b", "remove_model": "smollm2-135m"}
    path = path.format(
        slug=slug,
        token=path_values["token"],
        name=names.get(name, ""),
        iteration=1,
        kind=KINDS.get(name, "csv"),
        tag="odd",
        sha256=path_values["sha256"],
    )
    path += QUERIES.get(name, "").format(**path_values)
    body = BODIES.get(name)
    if name == "ask_question":
        body = body | {"trajectory": path_values["trajectory"]}
    elif name == "import_run":
        body = journal_builder.write(tmp_path, journal_builder.started()).read_bytes()
    elif name == "append_journal":
        body = b""
    if name == "put_image":
        return caller.call(method, path, image_file(), Content_Type="image/png")
    return caller.call(method, path, body)


@pytest.mark.django_db
def test_the_owner_may_do_everything(
    subtests: pytest.Subtests, callers: Callers, path_values: dict[str, str], tmp_path: Path
) -> None:
    for name, method, path in operations():
        with operation_undone(subtests, name):
            prepared(name, path_values)
            answer = send_request(callers.owner, name, method, path, path_values, tmp_path)
            assert answer.status_code in (200, 201, 202, 204), answer.content
            check_documented(answer, method, path)


@pytest.mark.django_db
def test_a_member_may_do_everything_but_what_belongs_to_an_author(
    subtests: pytest.Subtests, callers: Callers, people: People, path_values: dict[str, str], tmp_path: Path
) -> None:
    do_set_role(people.team, people.viewer, Membership.Role.MEMBER)
    for name, method, path in operations():
        with operation_undone(subtests, name):
            prepared(name, path_values)
            answer = send_request(callers.viewer, name, method, path, path_values, tmp_path)
            assert answer.status_code in ((403,) if name in AUTHORS | ADMINS else (200, 201, 202, 204)), answer.content


@pytest.mark.django_db
def test_a_viewer_and_a_read_token_may_read_and_get_a_reason_otherwise(
    subtests: pytest.Subtests, callers: Callers, path_values: dict[str, str], tmp_path: Path
) -> None:
    for name, method, path in operations():
        for caller in (callers.reader, callers.viewer):
            with operation_undone(subtests, name):
                prepared(name, path_values)
                before = state()
                answer = send_request(caller, name, method, path, path_values, tmp_path)
                if method == "GET" and (name not in ADMINS or caller is callers.reader):
                    assert answer.status_code == 200, answer.content
                elif name in VIEWERS and caller is callers.viewer:
                    assert answer.status_code == 201, answer.content
                    continue
                else:
                    assert answer.status_code == 403, answer.content
                    assert len(problem(answer)["message"]) > 30
                assert state() == before


@pytest.mark.django_db
def test_an_outsider_gets_404(
    subtests: pytest.Subtests, callers: Callers, people: People, path_values: dict[str, str], tmp_path: Path
) -> None:
    for name, method, path in operations():
        with operation_undone(subtests, name):
            prepared(name, path_values)
            before, runs = state(), Run.objects.filter(team=people.team).count()
            answer = send_request(callers.outsider, name, method, path, path_values, tmp_path)
            if name in OPEN | OWN:
                assert answer.status_code in (200, 201), answer.content
                assert path_values["run"].encode() not in answer.content
                assert path_values["study"].encode() not in answer.content
                assert Run.objects.filter(team=people.team).count() == runs
            else:  # all users see the models of the workers
                assert answer.status_code == (403 if name == "remove_model" else 404), answer.content
                assert state() == before


@pytest.mark.django_db
def test_an_anonymous_request_may_do_nothing(
    subtests: pytest.Subtests, callers: Callers, path_values: dict[str, str], tmp_path: Path
) -> None:
    Run.objects.update(visibility=Run.Visibility.LINK)
    before = state()
    for name, method, path in operations():
        with operation_undone(subtests, name):
            answer = send_request(callers.anonymous, name, method, path, path_values, tmp_path)
            assert answer.status_code == 401, answer.content
            assert state() == before


def state() -> list[Any]:
    """All data that an operation could change."""
    return [
        list(Run.objects.order_by("pk").values()),
        list(ShareLink.objects.order_by("pk").values()),
        list(Study.objects.order_by("pk").values()),
        Trajectory.objects.count(),
        *(
            list(model.objects.order_by("pk").values())
            for model in (Comment, Star, Tagging, Rule, Delivery, StoredModel, BranchQuestion)
        ),
    ]
