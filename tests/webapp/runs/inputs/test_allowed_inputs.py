"""What runs of the site may name, in every setting: other teams' weights and files of the worker stay out of reach."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from django.utils import timezone
from pydantic import BaseModel
from pytest_django import Settings

import envs
from envs.bandit import Bandit, BanditSettings
from envs.base import EnvSettings
from envs.text_roles import TextRole, TextSetting, declared_role, undeclared
from tests.envs.plugins import offering
from tests.webapp.api.api_clients import Callers, callers, problem, program
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from tests.webapp.teams.members import add_member, browser_of
from trainer.config import rewind
from trainer.config.files import entry_model, load_preset, preset_names
from trainer.config.run import RunConfig
from trainer.paths import POCKET_CHECKPOINT
from webapp.runs import actions
from webapp.runs.inputs import allowed_inputs, run_models
from webapp.runs.inputs.allowed_inputs import problems, refusal
from webapp.runs.launch.creation import do_create_run
from webapp.runs.models import Checkpoint, Run, Worker
from webapp.teams.actions import do_set_role
from webapp.teams.models import Membership, User

__all__ = ["callers", "who"]
PRESET = "sokoban-starpo_s-pocket"
ROLES = {
    "name": TextRole.PLAIN,
    "tags": TextRole.PLAIN,
    "changes": TextRole.PLAIN,
    "rewinds": TextRole.PLAIN,
    "environment.name": TextRole.PLAIN,
    "environment.settings": TextRole.ENVIRONMENT,
    "environment.instruction": TextRole.PLAIN,
    "environment.mix.name": TextRole.PLAIN,
    "environment.mix.settings": TextRole.ENVIRONMENT,
    "policy.model": TextRole.MODEL,
    "policy.revision": TextRole.PLAIN,
    "rollout.system": TextRole.PLAIN,
    "rollout.chat_template_kwargs": TextRole.PLAIN,
    "engine.urls": TextRole.URL,
    "rewards.terms": TextRole.PLAIN,
    "cluster.resources": TextRole.PLAIN,
    "sft.mix.name": TextRole.PLAIN,
    "sft.mix.settings": TextRole.ENVIRONMENT,
    "evaluation.suites": TextRole.ENVIRONMENT,
    "hosted.url": TextRole.URL,
    "hosted.model": TextRole.PLAIN,
    "hosted.api_key_env": TextRole.VARIABLE,
    "hosted.extra_body": TextRole.PLAIN,
    "echo_trap.rewind_changes": TextRole.PLAIN,
}
"""Every setting that may hold text. A new one needs a role here, and a rule in allowed_inputs unless it is PLAIN."""


def roles(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, TextRole]]:
    for name, field in model.model_fields.items():
        inner = field.annotation if isinstance(field.annotation, type) else entry_model(field.annotation)
        if inner is not None and issubclass(inner, BaseModel):
            yield from roles(inner, f"{prefix}{name}.")
        if role := declared_role(field):
            yield prefix + name, role


def config(**sections: Any) -> RunConfig:
    return RunConfig.model_validate(sections)


def policy(model: str) -> RunConfig:
    return config(policy={"model": model})


def found(wanted: RunConfig, user: User | None = None) -> dict[str, str]:
    """What the site objects to."""
    return problems(wanted, Run.objects.listed_for(user) if user else Run.objects.none())


@pytest.fixture
def finished(run: Run) -> Run:
    """A run of the owner's team with checkpoints of iterations 2 and 4."""
    for iteration in (2, 4):
        Checkpoint.objects.create(
            run=run, iteration=iteration, path=f"checkpoints/{iteration:06d}", bytes=1, time=run.created_at
        )
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    run.refresh_from_db()
    return run


def test_every_setting_declares_what_its_text_names() -> None:
    assert undeclared(RunConfig) == [], "annotate it with one of envs.text_roles.TextRole"
    assert dict(roles(RunConfig)) == ROLES


def test_a_rewind_changes_no_setting_that_names_anything() -> None:
    named = [name for name, role in ROLES.items() if role is not TextRole.PLAIN]
    assert not [name for name in named if name.partition(".")[0] in rewind.SECTIONS]


@pytest.mark.parametrize("role", [role for role in TextRole if role is not TextRole.PLAIN])
def test_a_setting_without_a_rule_of_its_own_is_refused(role: TextRole) -> None:
    assert allowed_inputs._problem(TextSetting("new.setting", role, "/etc/passwd"), Run.objects.none())


@pytest.mark.django_db
@pytest.mark.parametrize("name", preset_names())
def test_presets_need_nothing_of_the_operator(name: str) -> None:
    assert found(load_preset(name)) == {}


@pytest.mark.django_db
@pytest.mark.parametrize("model", ["pocket", "Qwen/Qwen2.5-0.5B-Instruct", "some_one/a.b-C_1", str(POCKET_CHECKPOINT)])
def test_shipped_models_and_hub_ids_may_be_named(model: str) -> None:
    assert found(policy(model)) == {}


@pytest.mark.parametrize(
    ("model", "allowed"),
    [
        ("pocket", True),
        ("Qwen/Qwen2.5-0.5B-Instruct", True),
        ("meta-llama/Llama-3.2-1B", True),
        ("meta-llama/Llama-3.2-1B-private", False),
        ("Qwentin/secret", False),
    ],
)
def test_the_operator_limits_models_of_the_hub(model: str, allowed: bool, settings: Settings) -> None:
    settings.ECHOSCOPE_HUB_MODELS = ["Qwen/", "meta-llama/Llama-3.2-1B"]
    refused = found(policy(model)).get("policy.model", "")
    assert (refused == "") is allowed
    assert allowed or "ECHOSCOPE_HUB_MODELS" in refused


@pytest.mark.django_db
@pytest.mark.parametrize(
    "model",
    [
        "",
        ".",
        "/",
        "/data/runs/k7d2mq9x4t8b",
        "../runs/k7d2mq9x4t8b",
        "var/runs/k7d2mq9x4t8b",
        "./runs",
        "~/runs",
        "~root/runs",
        "var/../..",
        "..var/x",
        "one-word",
        "a/b\n",
        "a/b ",
        "file:///etc",
        "http://evil.example/x",
    ],
)
def test_folders_may_not_be_named(model: str) -> None:
    assert list(found(policy(model))) == ["policy.model"]


@pytest.mark.django_db
def test_listed_folders_may_be_named(settings: Settings, tmp_path: Path) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "var"
    settings.ECHOSCOPE_MODEL_FOLDERS = [str(tmp_path / "models")]
    assert found(policy(f"{tmp_path}/models/one")) == {}
    assert "pocket, a hub id such as" in found(policy(f"{tmp_path}/other"))["policy.model"]


BY_ENVIRONMENT: list[Mapping[str, Any]] = [
    {"name": "Boxoban", "settings": {"path": "/data/runs"}},
    {"name": "MetaMathQA", "settings": {"path": "/etc/shadow"}},
    {"name": "Countdown", "settings": {"path": "services.json"}},
    {"name": "WebShop", "settings": {"path": "/dev"}},
]


@pytest.mark.django_db
@pytest.mark.parametrize("environment", BY_ENVIRONMENT, ids=lambda value: value["name"])
def test_environments_read_no_file_that_is_not_listed(environment: Mapping[str, Any], settings: Settings) -> None:
    path = environment["settings"]["path"]
    assert list(found(config(environment=environment))) == ["environment.settings.path"]
    mixed = found(config(environment={"mix": [{**environment, "share": 0.2}]}))
    assert mixed["environment.mix"].startswith("entry 1, settings.path: runs of this site may not read")
    demonstrated = found(config(sft={"mix": [{**environment, "share": 0.2}]}))
    assert demonstrated["sft.mix"].startswith("entry 1, settings.path: runs of this site may not read")
    suite = f"{environment['name']}:path={path.replace('/', '_')}"
    assert found(config(evaluation={"suites": [suite]}))["evaluation.suites"].startswith(f"{suite}: path: ")
    settings.ECHOSCOPE_DATA_FOLDERS = ["/data"]
    below = {**environment, "settings": {"path": "/data/set"}}
    assert found(config(environment=below)) == {}
    for empty in ({"path": ""}, {}):
        assert found(config(environment={**environment, "settings": empty})) == {}


@pytest.mark.django_db
def test_no_run_starts_a_command_that_a_user_wrote(settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_FOLDERS = ["/data"]
    wanted = {"questions": "/data/questions.jsonl"}
    environment = {"name": "ToolMCP", "settings": {**wanted, "command": "sh -c evil"}}
    assert list(found(config(environment=environment))) == ["environment.settings.command"]
    assert found(config(environment={"name": "ToolMCP", "settings": {}})) == {}
    unlisted = {"path": "/data/documents.jsonl", "questions": "/etc/shadow"}
    assert list(found(config(environment={"name": "ToolSearch", "settings": unlisted}))) == [
        "environment.settings.questions"
    ]


@pytest.mark.django_db
def test_environments_connect_to_servers_that_the_operator_lists_alone(settings: Settings) -> None:
    def refused(address: str) -> dict[str, str]:
        return found(config(environment={"name": "OpenEnv", "settings": {"id": address}}))

    inside = "http://169.254.169.254/latest"
    assert (
        f"Its operator can allow it with ECHOSCOPE_OPENENV_URLS={inside}" in refused(inside)["environment.settings.id"]
    )
    settings.ECHOSCOPE_OPENENV_URLS = ["http://chess:8000/", "https://shop.example/env"]
    assert refused("http://chess:8000") == refused("HTTPS://shop.example/env/") == {}
    for address in (inside, "http://chess:8001", "http://chess:8000/x", "ws://chess:8000", "http://chess.evil:8000"):
        assert "Allowed: http://chess:8000, https://shop.example/env." in refused(address)["environment.settings.id"]
    entry = {"name": "OpenEnv", "share": 0.2, "settings": {"id": inside}}
    assert (
        "settings.id: runs of this site may not use" in found(config(environment={"mix": [entry]}))["environment.mix"]
    )
    assert allowed_inputs.names_files("OpenEnv", {"id": inside}), "so that the site does not play it"
    assert not allowed_inputs.names_files("OpenEnv", {"id": "http://chess:8000"})


@pytest.mark.django_db
def test_tools_are_those_of_mcp_servers_that_the_operator_lists(settings: Settings) -> None:
    def refused(address: str) -> dict[str, str]:
        named = {"url": address, "questions": "/data/questions.jsonl"}
        return found(config(environment={"name": "ToolMCP", "settings": named}))

    shop = "http://shop:8000/mcp"
    settings.ECHOSCOPE_DATA_FOLDERS = ["/data"]
    settings.ECHOSCOPE_OPENENV_URLS = [shop]
    assert list(refused(shop)) == ["environment.settings.url"], "to play on a server is not to call its tools"
    assert f"Its operator can allow it with ECHOSCOPE_MCP_URLS={shop}" in refused(shop)["environment.settings.url"]
    settings.ECHOSCOPE_MCP_URLS = [shop + "/", "https://docs.example/mcp"]
    settings.ECHOSCOPE_OPENENV_URLS = []
    assert refused(shop) == refused("HTTPS://docs.example/mcp/") == {}
    for address in ("http://shop:8001/mcp", "http://shop:8000/", "https://shop:8000/mcp", "http://shop.evil:8000/mcp"):
        assert f"Allowed: {shop}, https://docs.example/mcp." in refused(address)["environment.settings.url"]
    for listed, reason in ((shop, ""), ("http://10.0.0.1/mcp", "entry 1, settings.url: runs of this site may not use")):
        entry = {"name": "ToolMCP", "share": 0.2, "settings": {"url": listed, "questions": "/data/questions.jsonl"}}
        assert found(config(environment={"mix": [entry]})).get("environment.mix", "").startswith(reason)
        assert bool(found(config(environment={"mix": [entry]}))) == bool(reason)
    game = {"name": "OpenEnv", "settings": {"id": shop}}
    assert list(found(config(environment=game))) == ["environment.settings.id"], "nor is it the other way round"


@pytest.mark.django_db
def test_mcp_servers_are_started_by_commands_that_the_operator_lists(settings: Settings) -> None:
    def refused(command: str) -> dict[str, str]:
        named = {"command": command, "questions": "/data/questions.jsonl"}
        return found(config(environment={"name": "ToolMCP", "settings": named}))

    settings.ECHOSCOPE_DATA_FOLDERS = ["/data"]
    shop = "python '/srv/my shop.py' --quiet"
    assert f"can allow it with ECHOSCOPE_MCP_COMMANDS={shop}" in refused(shop)["environment.settings.command"]
    settings.ECHOSCOPE_MCP_COMMANDS = [shop, "npx -y @acme/search", 'python "open']
    assert refused(shop) == refused('python "/srv/my shop.py"  --quiet') == refused("npx -y @acme/search") == {}
    for command in ("python", f"{shop} --port 1", "npx -y @acme/search; rm x", "npx -y '@acme/search; rm x'"):
        assert "Allowed: npx -y @acme/search; " in refused(command)["environment.settings.command"]
    entry = {"name": "ToolMCP", "share": 0.2, "settings": {"command": "sh", "questions": "/data/questions.jsonl"}}
    assert (
        "settings.command: runs of this site may not" in found(config(environment={"mix": [entry]}))["environment.mix"]
    )
    assert allowed_inputs.names_files("ToolMCP", {"command": shop, "questions": "/data/q"}), "the site starts none"


def test_mcp_servers_are_refused_by_form_api_and_worker_until_the_operator_lists_them(
    people: People, who: Visitors, callers: Callers, settings: Settings
) -> None:
    settings.ECHOSCOPE_DATA_FOLDERS = ["/data"]
    shop = "http://shop:8000/mcp"
    fields = fields_of(who.owner.get("/runs/new?environment=ToolMCP").content.decode()) | {
        "environment.settings.url": shop,
        "environment.settings.questions": "/data/questions.jsonl",
    }
    named = {"url": shop, "questions": "/data/questions.jsonl"}
    body = {"preset": PRESET, "overrides": {"environment.name": "ToolMCP", "environment.settings": named}}
    page = who.owner.post("/runs/new", fields).content.decode()
    assert contains(page, f'id="f-environment-settings-url-error">runs of this site may not use {shop}')
    assert "ECHOSCOPE_MCP_URLS" in page
    answer = callers.owner.post("/api/runs", body)
    assert answer.status_code == 422
    assert "ECHOSCOPE_MCP_URLS" in problem(answer)["fields"]["environment.settings.url"]
    settings.ECHOSCOPE_MCP_URLS = [shop]
    assert who.owner.post("/runs/new", fields).status_code == 302
    made = callers.owner.post("/api/runs", body)
    assert made.status_code == 201, made.content
    run = Run.objects.get(slug=made.json()["slug"])
    assert refusal(run) == ""
    settings.ECHOSCOPE_MCP_URLS = []
    assert "environment.settings.url: runs of this site may not use" in refusal(run), "which the worker asks"


@pytest.mark.parametrize(
    "environment, settings, expected",
    [
        ("Boxoban", {"path": "/data/levels"}, True),
        ("Boxoban", {"path": "", "size": 9}, False),
        ("Countdown", {"path": None}, False),
        ("WebShop", {"hints": "Look around."}, False),
        ("Bandit", {"low_name": "Heron"}, False),
        ("ToolMCP", {"command": "sh", "questions": "/q"}, True),
        ("ToolMCP", {"url": "http://shop:8000/mcp", "questions": "/q"}, True),
        ("ToolMCP", {"tools": ["price"]}, False),
    ],
)
def test_states_from_files_of_the_worker_are_known(environment: str, settings: dict[str, Any], expected: bool) -> None:
    assert allowed_inputs.names_files(environment, settings) == expected


@pytest.mark.django_db
def test_engine_servers_are_those_that_the_operator_lists(settings: Settings) -> None:
    def engine(*urls: str) -> dict[str, str]:
        return found(config(engine={"name": "server", "urls": list(urls)}))

    assert "ECHOSCOPE_ENGINE_URLS=http://127.0.0.1:9199/latest" in engine("http://127.0.0.1:9199/latest")["engine.urls"]
    settings.ECHOSCOPE_ENGINE_URLS = ["http://gpu1:8000/v1/", "http://gpu2:8000"]
    assert engine("http://gpu1:8000", "HTTP://GPU2:8000/") == {}
    for url in ("http://gpu1:8001", "https://gpu1:8000", "http://gpu1:8000/x", "http://gpu1.evil.example:8000"):
        assert "Allowed: http://gpu1:8000, http://gpu2:8000." in engine("http://gpu2:8000", url)["engine.urls"]
    assert found(config(engine={"urls": ["http://x:1"]})), "refused even if the engine does not use them"


@pytest.mark.django_db
def test_runs_of_a_site_start_no_further_processes() -> None:
    for name, value in (("rollout_actors", 2), ("learners", 1)):
        assert list(found(config(cluster={name: value}))) == [f"cluster.{name}"]


@pytest.mark.django_db
def test_runs_start_actors_where_a_worker_stands_for_a_cluster() -> None:
    actors = {"rollout_actors": 2, "learners": 1}
    assert "no worker of this site stands for a Ray cluster" in found(config(cluster=actors))["cluster.learners"]
    now = timezone.now()
    one = Worker.objects.create(name="plain@here", started_at=now, last_seen_at=now)
    assert len(found(config(cluster=actors))) == 2
    Worker.objects.filter(pk=one.pk).update(cluster={"problem": "No Ray cluster answers.", "nodes": []})
    assert found(config(cluster=actors)) == {}, "it waits until the cluster answers"


class StrangeSettings(BanditSettings):
    """As an installed package may have them."""

    levels: str = "shipped"
    judge: Annotated[str, TextRole.URL] = ""
    title: Annotated[str, TextRole.PLAIN] = ""


class Strange(Bandit):
    Settings: ClassVar[type[EnvSettings]] = StrangeSettings


@pytest.mark.django_db
def test_texts_of_an_installed_environment_count_as_paths_unless_it_declares_a_role(
    tmp_path: Path, settings: Settings
) -> None:
    (tmp_path / "site").mkdir()
    with offering(tmp_path / "site", Strange=f"{__name__}:Strange"):
        assert "Strange" in envs.names()

        def strange(**values: str) -> list[str]:
            return list(found(config(environment={"name": "Strange", "settings": values})))

        assert strange(levels="shipped", title="/etc") == []
        assert strange(levels="/etc") == ["environment.settings.levels"]
        assert strange(levels="var") == ["environment.settings.levels"]
        assert strange(judge="http://10.0.0.1/") == ["environment.settings.judge"]
        settings.ECHOSCOPE_DATA_FOLDERS = ["/data"]
        assert strange(levels="/data/hard") == []
        assert strange(judge="/data/hard") == ["environment.settings.judge"]
        assert allowed_inputs.names_files("Strange", {"levels": "hard"}), "so that the site does not play it"
        assert not allowed_inputs.names_files("Strange", {"title": "/etc"})


def test_checkpoints_of_runs_of_the_team_may_be_named(people: People, finished: Run) -> None:
    assert found(policy(f"run:{finished.slug}"), people.owner) == {}
    assert found(policy(f"run:{finished.slug}@2"), people.viewer) == {}
    assert "choose one of 4, 2" in found(policy(f"run:{finished.slug}@3"), people.owner)["policy.model"]
    for spelling in ("run:", "run:../x", f"run:{finished.slug}@", f"run:{finished.slug}@x", f"run:{finished.slug}/x"):
        assert "must be run:SLUG or run:SLUG@ITERATION" in found(policy(spelling), people.owner)["policy.model"]
    Run.objects.filter(pk=finished.pk).update(imported=True)
    assert "was trained elsewhere" in found(policy(f"run:{finished.slug}"), people.owner)["policy.model"]
    Checkpoint.objects.all().delete()
    Run.objects.filter(pk=finished.pk).update(imported=False)
    assert "has no checkpoint yet" in found(policy(f"run:{finished.slug}"), people.owner)["policy.model"]


@pytest.mark.parametrize("visibility", Run.Visibility.values)
def test_other_teams_and_private_runs_stay_closed(visibility: str, people: People, finished: Run) -> None:
    Run.objects.filter(pk=finished.pk).update(visibility=visibility)
    member = add_member(people)
    unknown = found(policy("run:2222mq9x4t8b"), people.outsider)["policy.model"]
    refused = found(policy(f"run:{finished.slug}"), people.outsider)["policy.model"]
    assert refused.replace(finished.slug, "2222mq9x4t8b") == unknown, "as if there were no such run"
    assert (found(policy(f"run:{finished.slug}"), member) == {}) == (visibility != "private")
    assert found(policy(f"run:{finished.slug}"), people.owner) == {}


def test_an_outsider_cannot_train_on_the_run_of_another_team_from_the_form(who: Visitors, finished: Run) -> None:
    Run.objects.filter(pk=finished.pk).update(visibility=Run.Visibility.LINK)
    fields = fields_of(who.outsider.get(f"/runs/new?preset={PRESET}").content.decode())
    refused = re.compile(r'href="#f-policy-model">[^<]*(there is no run|runs of this site may not)')
    for model in (f"run:{finished.slug}", f"run:{finished.slug}@4", str(finished.folder)):
        for address in ("/runs/new", "/runs/new/check"):
            page = who.outsider.post(address, fields | {"policy.model": model}).content.decode()
            assert refused.search(page)
        yaml = {"yaml": f"policy: {{model: '{model}'}}"}
        page = who.outsider.post("/runs/new/yaml", yaml).content.decode()
        assert refused.search(page)
        assert f"there is no run {finished.slug}" in page or str(finished.folder) in page
    levels = {"environment.name": "Boxoban", "environment.settings.path": str(finished.folder.parent)}
    page = who.outsider.post("/runs/new", fields | levels).content.decode()
    assert contains(page, 'id="f-environment-settings-path-error">runs of this site may not read')
    assert Run.objects.count() == 1


def test_an_outsider_cannot_train_on_the_run_of_another_team_by_api(callers: Callers, finished: Run) -> None:
    Run.objects.filter(pk=finished.pk).update(visibility=Run.Visibility.LINK)
    refused: list[dict[str, Any]] = [
        {"policy.model": f"run:{finished.slug}@4"},
        {"policy.model": str(finished.folder)},
        {"environment.name": "Boxoban", "environment.settings": {"path": str(finished.folder.parent)}},
        {"evaluation.suites": ["Boxoban:path=var"]},
        {"engine.urls": ["http://127.0.0.1:9199/latest"], "engine.name": "server"},
    ]
    for overrides in refused:
        answer = callers.outsider.post("/api/runs", {"preset": PRESET, "overrides": overrides})
        assert answer.status_code == 422
        assert problem(answer)["fields"].keys() & {*overrides, "environment.settings.path"}, overrides
    made = callers.outsider.post("/api/runs", {"preset": PRESET})
    clone = callers.outsider.post(f"/api/runs/{made.json()['slug']}/clone", {"overrides": refused[0]})
    assert clone.status_code == 422
    assert Run.objects.count() == 2


def test_a_token_names_only_runs_of_its_team(people: People, finished: Run, callers: Callers) -> None:
    body = {"preset": PRESET, "overrides": {"policy.model": f"run:{finished.slug}"}}
    elsewhere = people.outsider.memberships.get().team
    do_set_role(elsewhere, people.owner, Membership.Role.MEMBER)
    assert program(elsewhere, people.owner).post("/api/runs", body).status_code == 422
    made = callers.owner.post("/api/runs", body)
    assert made.status_code == 201, made.content
    assert made.json()["config"]["policy"]["model"] == f"run:{finished.slug}@4", "the newest, written out"


def test_the_form_launches_from_a_checkpoint_and_estimates_its_memory(people: People, finished: Run) -> None:
    client = browser_of(people.owner)
    fields = fields_of(client.get(f"/runs/new?preset={PRESET}").content.decode())
    usual = do_create_run(people.team, people.owner, load_preset(PRESET))
    response = client.post("/runs/new", fields | {"policy.model": f"run:{finished.slug}"})
    assert response.status_code == 302, response.content.decode()
    run = Run.objects.exclude(pk__in=[finished.pk, usual.pk]).get()
    assert run.config["policy"]["model"] == f"run:{finished.slug}@4"
    assert run.memory == usual.memory
    assert refusal(run) == ""
    again = client.get(f"/runs/new?clone={run.slug}").content.decode()
    assert f'value="run:{finished.slug}@4"' in again
    assert not contains(again, "invalid setting")


def test_a_clone_shows_what_is_no_longer_allowed(who: Visitors, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(config=policy("/data/models/one").model_dump(mode="json"))
    page = who.owner.get(f"/runs/new?clone={run.slug}").content.decode()
    assert re.search(r'id="f-policy-model-error">runs of this site may not read', page)


def test_rights_of_a_stored_run_are_those_of_its_author_and_of_its_team(people: People, finished: Run) -> None:
    elsewhere = people.outsider.memberships.get().team
    do_set_role(elsewhere, people.owner, Membership.Role.MEMBER)
    model = policy(f"run:{finished.slug}@4")
    own = do_create_run(people.team, people.owner, model)
    crossing = do_create_run(elsewhere, people.owner, model)
    assert (refusal(own), refusal(crossing)) == ("", "")
    Membership.objects.filter(team=people.team, user=people.owner).delete()
    assert (refusal(own), "there is no run" in refusal(crossing)) == ("", True), "left the team of the source"
    Run.objects.filter(pk=own.pk).update(author=None)
    own.refresh_from_db()
    assert refusal(own) == "", "the team of both may read it"
    Run.objects.filter(pk=finished.pk).update(visibility=Run.Visibility.PRIVATE)
    assert "there is no run" in refusal(own)


def test_an_author_who_was_deactivated_has_no_rights(people: People, finished: Run) -> None:
    elsewhere = people.outsider.memberships.get().team
    do_set_role(elsewhere, people.owner, Membership.Role.MEMBER)
    crossing = do_create_run(elsewhere, people.owner, policy(f"run:{finished.slug}@4"))
    User.objects.filter(pk=people.owner.pk).update(is_active=False)
    assert "there is no run" in refusal(Run.objects.get(pk=crossing.pk))


def test_an_old_run_is_not_resumed_with_what_is_not_allowed(people: People, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.STOPPED, config=policy("/data/runs/other").model_dump(mode="json")
    )
    run.refresh_from_db()
    with pytest.raises(actions.RequestRefused, match=r"not allowed on this site: policy\.model: runs of this site may"):
        actions.do_request(run, "resume")
    Run.objects.filter(pk=run.pk).update(config={"kind": "unreadable"})
    run.refresh_from_db()
    assert refusal(run) == "", "the trainer rejects it"


def test_only_a_model_without_an_iteration_is_pinned(finished: Run) -> None:
    pinned = run_models.pinned(policy(f"run:{finished.slug}"))
    assert pinned.policy.model == f"run:{finished.slug}@4"
    for model in (f"run:{finished.slug}@2", "pocket", "a/b", "run:2222mq9x4t8b"):
        assert run_models.pinned(policy(model)).policy.model == model


def test_a_run_stored_with_a_setting_that_was_removed_opens_and_can_be_cloned(who: Visitors, run: Run) -> None:
    config = load_preset(PRESET).model_dump(mode="json")
    config["warmup"]["learning_rate"] = 0.004
    Run.objects.filter(pk=run.pk).update(config=config)
    assert who.owner.get(f"/runs/{run.slug}/").status_code == 200
    clone = who.owner.get(f"/runs/new?clone={run.slug}")
    assert clone.status_code == 200
    assert 'name="iterations"' in clone.content.decode()
