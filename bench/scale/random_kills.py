"""Runs on a cluster of several nodes whose processes are killed at random moments, against an undisturbed run.

The killed are rollout actors, learners, nodes with all that runs on them, and drivers. A driver is started again as the
site's queue does. Runs follow each other until there were enough kills; each must end with the weights and turns of
the undisturbed run, which one process plays without Ray.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ray.cluster_utils import Cluster

from bench.soak.checks import weights_digest
from tests.trainer.cluster.processes import pids
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.events import RunFinished, RunStarted, Turn
from trainer.journal.protocol import JOURNAL_FILE

KINDS = ("rollout actor", "learner", "node", "driver")
RUN = (
    *("iterations=16", "checkpoint.every=2", "evaluation.prompts=4", "policy.threads=1", "policy.device=cpu"),
    *("rollout.groups=3", "rollout.group_size=4", "rollout.max_turns=3", "rollout.groups_per_session=1"),
)
ON_CLUSTER = ("cluster.learners=1", "cluster.rollout_actors=2", "cluster.start_timeout=600")
_NODES, _NODE_CPUS = 2, 2
_STORE = 100 * 2**20
_POLL_SECONDS = 0.2
_LONGEST_DELAY = 20.0
"""Between the first progress after a kill and the next kill."""
_DRIVER_SECONDS = 300.0
"""Without a new line of the journal, after which a driver counts as stuck."""
_ACTORS = {"rollout actor": "RolloutActor", "learner": "LearnerActor"}

Turns = dict[tuple[str, int], tuple[str, str]]
"""State and response by trajectory and turn."""


@dataclass
class KillsResult:
    """What was killed and what was wrong afterwards.

    Attributes:
        kills: number by kind.
        runs: that were played to their end.
        attempts: of all runs together; kills of rollout actors need none.
        faults: differences from the undisturbed run, in words.
    """

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    attempts: int = 0
    faults: list[str] = field(default_factory=list)


class Nodes:
    """A head node without slots, where the drivers are, and nodes for actors, as processes of this machine."""

    def __init__(self) -> None:
        head: dict[str, Any] = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE}
        head["_system_config"] = {"worker_niceness": 0}  # else other work on this machine stops actors for minutes
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = [self._added() for _ in range(_NODES)]

    @property
    def address(self) -> str:
        """Of the cluster's control service, host:port."""
        address: str = self._cluster.address
        return address

    def _added(self) -> Any:
        return self._cluster.add_node(num_cpus=_NODE_CPUS, object_store_memory=_STORE)

    def kill(self, draw: random.Random) -> None:
        """End one with everything on it, without notice, and add another."""
        node = self._nodes.pop(draw.randrange(len(self._nodes)))
        self._cluster.remove_node(node, allow_graceful=False)
        self._nodes.append(self._added())

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


class DriverProcess:
    """`python -m trainer train --resume` on a run's folder, started as often as it dies."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._config = folder / "given.yaml"
        self._config.write_text(yaml.safe_dump(config.model_dump(mode="json")))
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "trainer", "train", "--resume"]
        command += ["--config", str(self._config), "--out", str(self.folder)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill(self) -> bool:
        """SIGKILL, and a new process for the same run."""
        if self._process.poll() is not None:
            return False
        self._process.kill()
        self._process.wait()
        self._process = self._started()
        return True

    def wait(self) -> int:
        """Exit status of the present process, once it ends."""
        return self._process.wait()

    def code(self) -> int | None:
        """Exit status of the present process; None while it runs."""
        return self._process.poll()

    def journal_size(self) -> int:
        """Bytes of the journal."""
        journal = self.folder / JOURNAL_FILE
        return journal.stat().st_size if journal.exists() else 0


def _kill(kind: str, nodes: Nodes, driver: DriverProcess, draw: random.Random) -> bool:
    """Kill one of this kind. Returns False if there is none at the moment."""
    if kind == "driver":
        return driver.kill()
    if kind == "node":
        nodes.kill(draw)
        return True
    found = pids(_ACTORS[kind])
    if found:
        os.kill(draw.choice(found), signal.SIGKILL)
    return bool(found)


def effective_turns(folder: Path) -> tuple[Turns, list[str]]:
    """The turns that count in a journal, and faults: a turn recorded twice or out of order by one attempt.

    An attempt supersedes what earlier ones recorded after the iteration from which it continues; one without a
    checkpoint begins anew, with the first evaluation.

    Raises:
        JournalError: a line is no event, or the numbers of events have a gap.
    """
    turns: Turns = {}
    faults = []
    played: set[tuple[str, int]] = set()
    for event in reader.read(folder / JOURNAL_FILE):
        if isinstance(event, RunStarted):
            kept = event.from_iteration or -1
            turns = {key: turn for key, turn in turns.items() if iteration_of(key[0]) <= kept}
            played = set(turns)
        if isinstance(event, Turn):
            key = (event.trajectory, event.turn)
            if key in played:
                faults.append(f"turn {event.turn} of {event.trajectory} is recorded twice")
            if event.turn and (event.trajectory, event.turn - 1) not in played:
                faults.append(f"turn {event.turn} of {event.trajectory} has none before it")
            played.add(key)
            turns[key] = (event.state, event.response)
    return turns, faults


def iteration_of(trajectory: str) -> int:
    """The iteration that a trajectory's id begins with, after the letter of an evaluation."""
    return int(trajectory.lstrip("e").partition("-")[0])


def faults_of(folder: Path, undisturbed: Path) -> list[str]:
    """What differs from the undisturbed run or is missing, in words; nothing if the run is complete and equal."""
    turns, faults = effective_turns(folder)
    expected, _ = effective_turns(undisturbed)
    if turns != expected:
        differing = sorted(key for key in turns.keys() | expected.keys() if turns.get(key) != expected.get(key))
        faults.append(f"{len(differing)} turns differ or are missing, the first is {differing[0]}")
    if weights_digest(folder) != weights_digest(undisturbed):
        faults.append("the final weights differ")
    last = None
    for event in reader.read(folder / JOURNAL_FILE):
        last = event
    if not isinstance(last, RunFinished) or last.reason != "completed":
        faults.append("the journal does not end with the completed run")
    return [f"{folder.name}: {fault}" for fault in faults]


def _disturb(driver: DriverProcess, nodes: Nodes, draw: random.Random, kinds: list[str], result: KillsResult) -> None:
    """Kill what the list names, in its order, until the run ends; each kill waits for progress since the last one."""
    size, due, changed = driver.journal_size(), 0.0, time.monotonic()
    while driver.code() is None:
        time.sleep(_POLL_SECONDS)
        now = time.monotonic()
        if (grown := driver.journal_size()) != size:
            size, changed = grown, now
            due = due or now + draw.uniform(0, _LONGEST_DELAY)
        if now - changed > _DRIVER_SECONDS:
            driver.kill()
            result.faults.append(f"{driver.folder.name}: no progress for {_DRIVER_SECONDS:.0f} s, started again")
            changed = now
        if kinds and due and now >= due and _kill(kinds[-1], nodes, driver, draw):
            result.kills[kind := kinds.pop()] += 1
            print(f"  {driver.folder.name}: {kind} killed, {len(kinds)} to come", flush=True)
            size, due, changed = driver.journal_size(), 0.0, now


def measure(folder: Path, kills: int, seed: int) -> KillsResult:
    """Kill as many times, about equally often each kind, in as many runs as it takes.

    Args:
        folder: for the runs; must not contain any yet.
    Raises:
        RuntimeError: a driver ends with an error.
    """
    draw = random.Random(seed)
    kinds = [KINDS[number % len(KINDS)] for number in range(kills)]
    draw.shuffle(kinds)
    config = with_overrides(load_preset("sokoban-starpo_s-pocket"), RUN)
    alone = DriverProcess(config, folder / "undisturbed")
    if alone.wait():
        raise RuntimeError(f"the undisturbed run ended with status {alone.code()}: see driver.log in {alone.folder}")
    result = KillsResult()
    with closing(Nodes()) as nodes:
        on_cluster = with_overrides(config, [*ON_CLUSTER, f"cluster.address={nodes.address}"])
        while kinds:
            result.runs += 1
            driver = DriverProcess(on_cluster, folder / f"run-{result.runs}")
            _disturb(driver, nodes, draw, kinds, result)
            if driver.code():
                raise RuntimeError(f"{driver.folder} ended with status {driver.code()}: see driver.log there")
            result.attempts += reader.count_attempts(driver.folder)
            result.faults += faults_of(driver.folder, alone.folder)
            print(f"{driver.folder.name}: ended, {len(result.faults)} faults so far", flush=True)
    return result


def table(result: KillsResult) -> str:
    """The result in Markdown."""
    lines = ["| killed | times |", "| --- | --- |", *(f"| {kind} | {result.kills[kind]} |" for kind in KINDS)]
    lines.append(f"\n{result.runs} runs in {result.attempts} attempts, {len(result.faults)} faults")
    return "\n".join([*lines, *result.faults])
