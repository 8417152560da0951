"""Kubernetes and Compose manifests name existing files, ports, URLs, variables, volumes and secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.urls import resolve

from webapp.services.addresses import ROOT
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
    folders = ("webapp", "trainer", "bootstrap")
    return "\n".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_the_kustomization_holds_every_manifest_once() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == FILES


def test_variables_of_the_manifests_are_read_by_the_code_and_explained() -> None:
    text = "\n".join(path.read_text() for path in [*FOLDER.iterdir(), ROOT / "compose.yaml", ROOT / "compose.gpu.yaml"])
    code, recorded = source(), "\n".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    for name in set(VARIABLE.findall(text)) - OUTSIDE:
        stem, _, ending = name.rpartition("_")
        assert name in code or (f'"{stem}"' in code and f'_{ending}"' in code), f"nothing reads {name}"
        assert name in recorded, f"{name} is explained nowhere"


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


def test_compose_passes_the_same_variables_to_every_service() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    ours = {name: one for name, one in services.items() if name not in {"postgres", "redis"}}
    assert {"web", "worker", "clock", "prepare"} <= ours.keys()
    assert len({str(one["environment"]) for one in ours.values()}) == 1
    assert {"ECHOSCOPE_STORAGE", "ECHOSCOPE_STORAGE_ENDPOINT"} <= ours["worker"]["environment"].keys()


def test_compose_gives_a_worker_time_for_its_checkpoint() -> None:
    worker = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["worker"]
    assert int(worker["stop_grace_period"].removesuffix("s")) > Intervals().stop_timeout


def test_the_guide_shows_where_the_manifests_are() -> None:
    guide = Path(ROOT / "docs/deploy.md").read_text()
    assert "kubectl apply -k deploy/kubernetes" in guide
