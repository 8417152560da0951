"""The manifests of a Ray cluster agree with each other, with the settings and with the Dockerfile."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml

from bootstrap import locks
from trainer.config.files import load_preset, with_overrides
from webapp.services.addresses import ROOT

FOLDER = ROOT / "deploy/kuberay"


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


def pods() -> dict[str, dict[str, Any]]:
    """Specification of each pod by its container's name."""
    (cluster,) = documents("cluster.yaml")
    _, job = documents("run.yaml")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"], job["spec"]]
    specs = [group["template"]["spec"] for group in groups]
    return {spec["containers"][0]["name"]: spec for spec in specs}


def trainer_command() -> list[str]:
    script = pods()["trainer"]["containers"][0]["args"][0].replace("\\\n", " ")
    return shlex.split(script.splitlines()[1])


def test_every_manifest_is_applied_once() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    others = {"kustomization.yaml", *kustomization["configurations"]}
    assert sorted(kustomization["resources"]) == sorted(
        path.name for path in FOLDER.iterdir() if path.name not in others
    )
    images = {image["name"] for image in kustomization["images"]}
    assert {spec["containers"][0]["image"] for spec in pods().values()} == images
    assert re.search(r"^FROM cuda AS ray$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_the_run_has_valid_settings_and_as_many_actors_as_gpus() -> None:
    words = trainer_command()
    changes = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    config = with_overrides(load_preset(words[words.index("--preset") + 1]), changes)
    (cluster,) = documents("cluster.yaml")
    (group,) = cluster["spec"]["workerGroupSpecs"]
    per_node = group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    assert config.cluster.rollout_actors + config.cluster.learners == group["replicas"] * per_node == 64
    assert "--resume" in words, "a restarted pod continues its run"


def test_the_driver_finds_the_head_and_reserves_nothing() -> None:
    (cluster,) = documents("cluster.yaml")
    start = pods()["trainer"]["containers"][0]["args"][0].splitlines()[0]
    assert f"--address {cluster['metadata']['name']}-head-svc:6379" in start
    assert "--num-cpus 0 --num-gpus 0" in start


def test_ray_is_the_locked_version() -> None:
    (cluster,) = documents("cluster.yaml")
    assert f"ray=={cluster['spec']['rayVersion']}" in locks.versions("dev")


@pytest.mark.parametrize("name", ["ray-head", "ray-worker", "trainer"])
def test_pods_are_unprivileged_and_require_the_token(name: str) -> None:
    pod = pods()[name]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    values = {entry["name"]: entry for entry in container["env"]}
    assert values["RAY_AUTH_MODE"]["value"] == "token"
    assert values["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == "echoscope-ray-token"
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_only_the_cluster_and_its_operator_reach_rays_ports() -> None:
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in documents("network.yaml")}
    assert policies["default-deny"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policies["default-deny"]
    opened = [rule for spec in policies.values() for rule in spec.get("ingress", [])]
    own, operator = opened
    assert own["from"] == [{"podSelector": {"matchLabels": {"ray.io/cluster": "echoscope"}}}]
    assert [port["port"] for port in operator["ports"]] == [8265]
    _, job = documents("run.yaml")
    assert job["spec"]["template"]["metadata"]["labels"]["ray.io/cluster"] == "echoscope"
