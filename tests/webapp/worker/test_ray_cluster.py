"""A worker that stands for a Ray cluster: its address, its reports, and a run from the queue to its end."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.patience import SECONDS, wait_until
from tests.trainer.threads import THREADS
from tests.webapp.conftest import People
from tests.webapp.worker.ray_nodes import HEAD_CPUS, NODE_CPUS
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from trainer.journal import reader
from trainer.journal.protocol import JOURNAL_FILE
from webapp.runs.actions import do_request
from webapp.runs.launch.creation import do_create_run
from webapp.runs.models import Run, Worker
from webapp.runs.queue import order
from webapp.services.addresses import free_port
from webapp.worker import heartbeat, ray_cluster
from webapp.worker.heartbeat import Heartbeat
from webapp.worker.ray_cluster import ClusterMonitor, configured_address
from webapp.worker.supervisor import serve
from webapp.worker.trainer_environment import trainer_environment

ADDRESS = "ECHOSCOPE_RAY_ADDRESS"
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


def test_without_an_address_a_worker_stands_for_no_cluster() -> None:
    assert configured_address({}) == ""
    assert configured_address({ADDRESS: "  "}) == ""


@pytest.mark.parametrize("address", ["10.0.0.5", "auto", ":6379", "a b:6379", "10.0.0.5:0", "10.0.0.5:66000", "me@h:1"])
def test_an_address_that_is_none_keeps_the_worker_from_starting(address: str) -> None:
    with pytest.raises(ValueError, match=r"ECHOSCOPE_RAY_ADDRESS must be host:port, as in 10\.0\.0\.5:6379, not"):
        configured_address({ADDRESS: address})


def test_rays_client_server_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(ValueError, match=r"cannot go through Ray's client server.*ray start --address"):
        configured_address({ADDRESS: "ray://head:10001"})


def test_the_error_of_a_worker_without_ray_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"Ray is not installed here: install it \(pip install '\.\[scale\]'\)"):
        configured_address({ADDRESS: "head:6379"})


@needs_ray
@pytest.mark.parametrize("address", ["head:6379", "10.0.0.5:6379", "[fe80::1]:6379"])
def test_addresses_of_all_kinds_of_hosts(address: str) -> None:
    assert configured_address({ADDRESS: f" {address} "}) == address


def test_only_runs_with_actors_receive_the_address_and_the_token() -> None:
    environ = {ADDRESS: "head:6379", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "secret", "PATH": "/bin"}
    for actors in ({"rollout_actors": 1}, {"learners": 2}):
        assert trainer_environment({"cluster": actors}, environ) == environ
    without: list[dict[str, Any]] = [{}, {"cluster": None}, {"cluster": {"rollout_actors": 0, "learners": 0}}]
    for config in without:
        assert trainer_environment(config, environ) == {"PATH": "/bin"}


def test_the_workers_own_process_never_imports_ray() -> None:
    code = (
        "import sys, django; django.setup(); import webapp.worker.heartbeat, webapp.worker.supervisor, "
        "webapp.worker.ray_cluster; print('ray' in sys.modules)"
    )
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "webapp.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout.strip() == "False", done.stderr


@needs_ray
def test_a_cluster_that_does_not_answer_is_reported_with_what_to_do() -> None:
    address = f"127.0.0.1:{free_port()}"
    monitor = ClusterMonitor(address, interval=0.2)
    assert monitor.report() == {"problem": "The cluster is being asked for its nodes.", "nodes": []}
    monitor.start()
    try:
        wait_until(lambda: f"No Ray cluster answers at {address}" in monitor.report()["problem"])
        assert "Start one there (ray start --head)" in monitor.report()["problem"]
        assert monitor.report()["nodes"] == []
    finally:
        monitor.stop()
    assert monitor._child is not None
    assert monitor._child.wait(SECONDS) is not None, "its child ends with it"


def test_a_child_that_ends_is_started_again_and_old_reports_do_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program in place of the one that asks Ray: it reports once and ends."""
    (tmp_path / "reports_once.py").write_text(
        "import json, os\nprint('noise')\nprint(json.dumps({'problem': '', 'nodes': [], 'pid': os.getpid()}))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(ray_cluster, "INSPECTION", "reports_once")
    monkeypatch.setattr(ray_cluster, "_RESTART_PAUSE", 0.1)
    monitor = ClusterMonitor("head:6379")
    monitor.start()
    try:
        wait_until(lambda: "pid" in monitor.report())
        first = monitor.report()["pid"]
        wait_until(lambda: monitor.report()["pid"] != first)
    finally:
        monitor.stop()
    monkeypatch.setattr(ray_cluster, "MAX_AGE", 0.0)
    assert monitor.report()["problem"] == "The Ray cluster at head:6379 has not answered for 0 seconds."


@pytest.fixture
def nodes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a cluster of two nodes, which requires a token; this process has both in its environment."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", str(THREADS))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.webapp.worker.ray_nodes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = next((line for line in process.stdout if line.startswith("{")), "")
            assert line, "the cluster did not start"
            address = json.loads(line)["address"]
            monkeypatch.setenv(ADDRESS, address)
            yield address
        finally:
            process.stdin.close()
            process.wait(SECONDS)


@pytest.fixture
def standing(nodes: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heartbeat]:
    """A worker that stands for that cluster."""
    monkeypatch.setattr(heartbeat, "HEARTBEAT_INTERVAL", 0.2)
    thread = Heartbeat("ray@here", ["training", "cluster"], 1)
    assert thread._cluster is not None
    thread._cluster.interval = 0.5
    thread.start()
    yield thread
    thread.stop()


def short_run(people: People, iterations: int = 1, **cluster: object) -> Run:
    config = RunConfig.model_validate(
        {
            "iterations": iterations,
            "environment": {"name": "Bandit"},
            "policy": {"device": "cpu", "threads": 1},
            "rollout": {"groups": 2, "group_size": 2, "max_turns": 1, "max_response_tokens": 16},
            "optimizer": {"mini_batch_trajectories": 4},
            "algorithm": {"estimator": "grpo"},
            "evaluation": {"prompts": 0},
            "cluster": cluster,
        }
    )
    return do_create_run(people.team, people.owner, config)


def serving() -> tuple[threading.Thread, list[str]]:
    """A thread in which the worker serves the next run, and its outcome once it ends."""
    outcome: list[str] = []

    def work() -> None:
        try:
            outcome.append(serve("ray@here"))
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    return thread, outcome


@pytest.mark.nightly
@needs_ray
@pytest.mark.django_db(transaction=True)
def test_a_run_goes_from_the_queue_to_the_nodes_of_a_cluster_and_to_its_end(
    people: People, standing: Heartbeat
) -> None:
    def cluster() -> dict[str, Any]:
        found: dict[str, Any] = Worker.objects.get(name="ray@here").cluster
        return found

    wait_until(lambda: Worker.objects.filter(name="ray@here").exists())
    wait_until(lambda: len(cluster()["nodes"]) == 2)
    assert cluster()["problem"] == ""
    assert sorted(node["cpus"] for node in cluster()["nodes"]) == [HEAD_CPUS, NODE_CPUS]
    assert all(node["cpus_free"] == node["cpus"] for node in cluster()["nodes"])
    assert os.environ["RAY_AUTH_TOKEN"] not in json.dumps(cluster())

    too_large = short_run(people, rollout_actors=4)
    run = short_run(people, rollout_actors=HEAD_CPUS + NODE_CPUS)
    assert (run.queue, run.gpus) == ("cluster", 0)
    least_free = float(HEAD_CPUS + NODE_CPUS)
    thread, outcome = serving()
    while thread.is_alive():
        least_free = min(least_free, sum(node["cpus_free"] for node in cluster()["nodes"]))
        time.sleep(0.1)
    thread.join()
    run.refresh_from_db()
    assert outcome == ["finished"], (run.failure, run.log_tail)
    assert (run.iteration, run.state, run.attempt) == (1, "finished", 1)
    assert least_free == 0, "the heartbeat shows what its actors occupy"
    wait_until(lambda: all(node["cpus_free"] == node["cpus"] for node in cluster()["nodes"]))

    messages = [event.message for event in reader.read(run.folder / JOURNAL_FILE) if isinstance(event, journal.Notice)]
    (placed,) = [message for message in messages if message.startswith("Placed on the Ray cluster: ")]
    for node in cluster()["nodes"]:
        assert f" on {node['name']}" in placed
    assert placed.count("rollout actor") == 2, "on two nodes"

    too_large.refresh_from_db()
    assert too_large.state == Run.State.QUEUED
    assert order.queue_positions(timezone.now())[too_large.pk].text.startswith(
        "Waiting for 4 CPUs: the cluster of worker ray@here has 2 in all; no registered cluster can ever hold this run"
    )


@needs_ray
@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
def test_a_run_with_actors_is_paused_resumed_and_cancelled_and_returns_its_nodes(
    people: People, standing: Heartbeat
) -> None:
    def free() -> bool:
        nodes = Worker.objects.get(name="ray@here").cluster["nodes"]
        return len(nodes) == 2 and all(node["cpus_free"] == node["cpus"] for node in nodes)

    def served(request: str, iteration: int) -> str:
        """Outcome of a worker that serves the run, with this request after that iteration."""
        thread, outcome = serving()
        wait_until(lambda: Run.objects.get(pk=run.pk).iteration >= iteration)
        wait_until(lambda: not free())  # actors occupy the nodes
        do_request(run, request)
        thread.join(SECONDS)
        run.refresh_from_db()
        return outcome[0]

    wait_until(lambda: Worker.objects.filter(name="ray@here").exists())
    wait_until(free)
    run = short_run(people, 10_000, rollout_actors=1, learners=1)
    assert served("pause", 2) == "paused", run.log_tail
    paused_at = run.iteration
    wait_until(free)
    do_request(run, "resume")
    assert served("cancel", paused_at + 2) == "cancelled", run.log_tail
    wait_until(free)
    starts = [event for event in reader.read(run.folder / JOURNAL_FILE) if isinstance(event, journal.RunStarted)]
    assert [(event.attempt, event.from_iteration) for event in starts] == [(1, 0), (2, paused_at)]
