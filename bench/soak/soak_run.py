"""Soak test: random disturbances of the whole product, after which nothing may be lost, doubled, stuck or left over.

    python -m bench.soak --kills 20
    python -m bench.soak --kills 500 --seed 7 --json soak.json    # in well under an hour on two idle cores

It starts a separate instance on loopback in a temporary folder, with a second worker and web server whose clock is
wrong and which reach PostgreSQL and Redis through proxies. Small runs train in turn while processes are killed, ended
and frozen, journals are cut as by a power cut, connections are slowed, silenced and reset, the wrong clock jumps, the
object storage fails, the second programs change to an older version and back as in a rolling upgrade, and websocket
clients drop, stall and reconnect. The older version is the newest tag or --older, if its programs can use the tables of
this version. The order follows from --seed, by default the date; the moments depend on the machine.

A disturbance is over once pages and API calls of each kind answer correctly again. At no time may a run have two
trainers or a worker without a claim and its time, and no client may receive an event before its commit. At the end
every run has finished with the weights of an undisturbed run of the same seed; its journal, its rows in the database,
its copy in object storage and the clients' events agree; and no process is left. Otherwise the exit code is 1 and the
folder is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.soak import checks, histories
from bench.soak.disturbances import ALONE, CHANGES_OF_VERSION, FULL_DISK, KINDS, plan
from bench.soak.instance import InstanceError, find_processes, kill_leftovers
from bench.soak.observer import RunState
from bench.soak.older_version import CannotRunBeside, OlderVersion, extract, newest_tag
from bench.soak.recovery import Disturbance
from bench.soak.scene import Scene, wait
from bench.soak.small_disk import SmallDisk
from trainer.config.run import RunConfig
from trainer.journal.protocol import JOURNAL_FILE
from trainer.studies import machine
from webapp.services.addresses import ROOT
from webapp.services.unprivileged_user import child_setup

FINISH_TIMEOUT = 600.0
CATCH_UP_TIMEOUT = 90.0
DEFERRED = 8
"""Disturbances that wait until they are possible, while later ones come first."""


@dataclass
class Outcome:
    """Result of a soak test."""

    seconds: float = 0.0
    disturbances: list[Disturbance] = field(default_factory=list)
    runs: int = 0
    attempts: int = 0
    rebuilds: int = 0
    events: int = 0
    received: int = 0
    compared: int = 0
    drops: int = 0
    stalls: int = 0
    starts: int = 0
    resumed: int = 0
    faults: list[str] = field(default_factory=list)


def configs(iterations: int, seeds: int) -> list[RunConfig]:
    """Return small runs of the pocket policy with different seeds."""
    made = []
    for seed in range(11, 11 + seeds):
        config = RunConfig.model_validate(
            {
                "environment": {"name": "FrozenLake"},
                "iterations": iterations,
                "seed": seed,
                "policy": {"model": "pocket", "threads": 1},
                "rollout": {"groups": 2, "group_size": 2, "max_turns": 2, "max_response_tokens": 32},
                "optimizer": {"mini_batch_trajectories": 4},
                "algorithm": {"estimator": "grpo"},
                "evaluation": {"prompts": 2, "every": 10},
                "checkpoint": {"every": 1, "keep": 2},
            }
        )
        made.append(config)
    return made


def reference_weights(config: RunConfig, folder: Path, program: Path = ROOT) -> str:
    """Return the SHA-256 of the weights after an undisturbed run of a version. Raises InstanceError if it fails."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config.model_dump_json())  # JSON is YAML
    argv = [sys.executable, "-m", "trainer", "train", "--config", str(folder / "config.json"), "--out", str(folder)]
    done = subprocess.run(
        argv,
        cwd=program,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        preexec_fn=child_setup(None, signal.SIGTERM),
    )
    if done.returncode:
        raise InstanceError(f"the undisturbed run of seed {config.seed} failed:\n{done.stdout}{done.stderr}")
    digest = checks.weights_digest(folder)
    shutil.rmtree(folder)
    return digest


def disturb(scene: Scene, kills: int, seed: int, pause: float, kinds: Collection[str]) -> None:
    """Begin `kills` disturbances of these kinds in the order of the plan, `pause` seconds apart on average."""
    order, rhythm = plan(seed, kinds), random.Random(seed + 2)
    deferred: list[tuple[str, int]] = []
    begun = printed = 0
    while begun < kills:
        until = time.monotonic() + rhythm.uniform(0.3, 1.7) * pause
        while time.monotonic() < until or any(disturbance.exclusive for disturbance in scene.open):
            scene.tick()
            time.sleep(0.05)
        for fault in scene.faults[printed:]:
            print(f"{time.strftime('%H:%M:%S')}  FAULT: {fault}", flush=True)
        printed = len(scene.faults)
        made = _begin(scene, deferred, order)
        if made is not None:
            scene.open.append(made)
            begun += 1
            if begun % 10 == 0:
                report_progress(scene, begun, kills)


def _begin(scene: Scene, deferred: list[tuple[str, int]], order: Iterator[tuple[str, int]]) -> Disturbance | None:
    """Begin the plan's first disturbance that is possible now; the others are kept for later."""
    busy = {disturbance.kind for disturbance in scene.open}
    for position in range(DEFERRED):
        if position == len(deferred):
            deferred.append(next(order))
        name, own_seed = deferred[position]
        if name in busy:
            continue
        made = KINDS[name][1](scene, random.Random(own_seed))
        if made is not None:
            del deferred[position]
            return made
        if name in ALONE and position == 0:
            return None
    return None


def report_progress(scene: Scene, begun: int, kills: int) -> None:
    finished = sum(run.ended for run in scene.observer.runs.values())
    took = [closed.recovery for closed in scene.closed if closed.recovery is not None]
    median = f", recovery {statistics.median(took):.1f} s (median), {max(took):.1f} s (worst)" if took else ""
    free = "" if scene.disk is None else f", {scene.disk.free_bytes() / 2**30:.1f} GiB free"
    print(
        f"{time.strftime('%H:%M:%S')}  {begun} of {kills} disturbances, {finished} runs ended, "
        f"{len(scene.faults)} faults{median}{free}",
        flush=True,
    )


def settle(scene: Scene) -> None:
    """Let everything recover and all runs end."""
    scene.undo_all()
    scene.accepts_runs = False
    if not wait(scene, lambda: not scene.open, FINISH_TIMEOUT):
        scene.faults.append("some disturbances were not recovered from")
    runs = scene.observer.runs
    titles = {run.title for run in runs.values()}
    if missing := scene.launched.keys() - titles:
        scene.faults.append(f"{len(missing)} launched runs are not in the database")

    def ended() -> bool:
        return bool(scene.observer.runs) and all(run.ended for run in scene.observer.runs.values())

    if not wait(scene, ended, FINISH_TIMEOUT):
        stuck = [run.slug for run in scene.observer.runs.values() if not run.ended]
        scene.faults.append(f"stuck: the runs {', '.join(stuck)} have not ended after {FINISH_TIMEOUT:.0f} s")


def compare(scene: Scene, weights: list[str], outcome: Outcome) -> None:
    """Check every run: state, weights, journal, database, clients."""
    journals = {}
    for run in scene.observer.runs.values():
        path = scene.folder(run.slug) / JOURNAL_FILE
        if not path.exists():
            continue
        journals[run.slug], faults = checks.journal_digests(path)
        outcome.faults += [f"run {run.slug}: {fault}" for fault in faults]
        numbers = checks.attempts(path)
        outcome.attempts += len(numbers)
        if numbers != list(range(1, len(numbers) + 1)):
            outcome.faults.append(f"run {run.slug}: its attempts are {numbers}")
    scene.follow_again(journals)
    if not wait(scene, lambda: scene.stop_followers_at(journals), CATCH_UP_TIMEOUT):
        outcome.faults += [
            f"run {follower.slug}: a client that {follower.manner} ends at event {follower.cursor}, the journal at "
            f"{len(journals.get(follower.slug, []))}"
            for follower in scene.followers
            if not follower.stopped
        ]
    outcome.faults += [*scene.observer.faults, *scene.commits.faults]
    outcome.compared = scene.commits.compared
    with scene.observer.connect() as connection:
        outcome.faults += histories.overlap_faults(connection)
        for run in scene.observer.runs.values():
            journal = journals.get(run.slug, [])
            faults = run_faults(scene, connection, run, journal, weights[scene.launched.get(run.title, 0)])
            outcome.faults += [f"run {run.slug}: {fault}" for fault in faults]
            outcome.runs += 1
            outcome.rebuilds += run.rebuilds
            outcome.events += len(journal)
    outcome.received = sum(len(part.events) for follower in scene.followers for part in follower.segments)
    outcome.drops = sum(follower.drops for follower in scene.followers)
    outcome.stalls = sum(follower.stalls for follower in scene.followers)


def run_faults(
    scene: Scene, connection: psycopg.Connection[Any], run: RunState, journal: list[str], weights: str
) -> list[str]:
    """Return faults of a run in its state, weights, copy, rows, and clients' events."""
    folder = scene.folder(run.slug)
    faults = [] if run.state == "finished" else [f"is {run.state}: {run.failure or run.journal_error}"]
    if run.state == "finished" and checks.weights_digest(folder) != weights:
        faults.append("its final weights differ from those of the undisturbed run")
    if run.state == "finished" and not run.storage_error:
        faults += checks.copy_faults(scene.instance.storage / run.slug, folder)
    faults += checks.frame_faults(frames(connection, run.slug), journal)
    faults += turn_faults(connection, run.slug, folder / JOURNAL_FILE)
    for follower in scene.followers:
        if follower.slug == run.slug:
            cuts = scene.cuts.get(run.slug, [])
            faults += checks.client_faults(follower.segments, journal, cuts, run.rebuilds)
            if follower.refused:
                faults.append(f"a client was refused {follower.refused} times")
    return faults


def frames(connection: psycopg.Connection[Any], slug: str) -> list[tuple[int, int, str]]:
    """Return the stored frames of a run: first, last, text."""
    return connection.execute(
        "SELECT first_seq, last_seq, frame FROM runs_eventbatch AS batch JOIN runs_run AS run ON run.id = batch.run_id "
        "WHERE run.slug = %s ORDER BY first_seq",
        [slug],
    ).fetchall()


def turn_faults(connection: psycopg.Connection[Any], slug: str, path: Path) -> list[str]:
    """Compare the stored turns with the journal's, except turns that a later attempt superseded."""
    from tests.system.run_observer import valid_turns

    rows = connection.execute(
        "SELECT turn.seq FROM trajectories_turn AS turn JOIN trajectories_trajectory AS t ON t.id = turn.trajectory_id "
        "JOIN runs_run AS run ON run.id = t.run_id WHERE run.slug = %s ORDER BY turn.seq",
        [slug],
    ).fetchall()
    stored, valid = [row[0] for row in rows], valid_turns(path) if path.exists() else []
    if stored == valid:
        return []
    missing, extra = sorted(set(valid) - set(stored)), sorted(set(stored) - set(valid))
    return [
        f"its turns differ from those of the journal: {len(missing)} missing {missing[:3]}, "
        f"{len(extra)} too many {extra[:3]}, {len(stored) - len(set(stored))} twice"
    ]


def older_beside(revision: str, made: list[RunConfig], weights: list[str], home: Path) -> OlderVersion | None:
    """Return the version of a revision, by default the newest release. None if it cannot take part, with a line why.

    Raises:
        InstanceError: an undisturbed run of that version fails.
    """
    revision = revision or newest_tag()
    if not revision:
        print("There is no earlier release: no program changes its version. --older REVISION names one.", flush=True)
        return None
    try:
        older = extract(revision, home / "older")
    except CannotRunBeside as error:
        print(f"No program changes its version. {error}", flush=True)
        return None
    theirs = [reference_weights(config, home / "reference", older.folder) for config in made]
    if theirs != weights:
        print(f"No program changes its version. Runs of {revision} end with other weights than today's.", flush=True)
        return None
    return older


def soak(
    kills: int,
    seed: int,
    made: list[RunConfig],
    pause: float,
    slots: int,
    home: Path,
    kinds: Collection[str],
    revision: str = "",
) -> Outcome:
    """Run the whole test with runs of these configurations in the folder `home`.

    Ends what it started, even if interrupted.

    Args:
        revision: the older version; see `older_beside`.
    """
    began = time.monotonic()
    outcome = Outcome()
    weights = [reference_weights(config, home / "reference") for config in made]
    older = older_beside(revision, made, weights, home) if CHANGES_OF_VERSION.intersection(kinds) else None
    if older is None:
        kinds = [kind for kind in kinds if kind not in CHANGES_OF_VERSION]
    print(f"{time.strftime('%H:%M:%S')}  undisturbed runs are done", flush=True)
    disk = SmallDisk.mount(home / "data")
    if disk is None:
        print("A disk of its own cannot be mounted (that takes root): no disturbance fills it.", flush=True)
        kinds = [kind for kind in kinds if kind != FULL_DISK]
    if not kinds:
        if disk is not None:
            disk.unmount()
        sys.exit("None of the named disturbances is possible.")
    scene = Scene(home / "data", made, seed, slots, disk, older)
    try:
        scene.start()
        print(f"{time.strftime('%H:%M:%S')}  the product is at {scene.instance.url}, data in {scene.home}", flush=True)
        wait(scene, lambda: any(run.iteration for run in scene.observer.runs.values()), 120)
        disturb(scene, kills, seed, pause, kinds)
        settle(scene)
        compare(scene, weights, outcome)
    finally:
        scene.stop()
        deadline = time.monotonic() + 10
        while (left := find_processes(home)) and time.monotonic() < deadline:
            time.sleep(0.2)
        if left:
            outcome.faults.append(f"processes were left over: {'; '.join(kill_leftovers(home))}")
        outcome.faults += scene.faults
        if disk is not None:
            disk.unmount(home / "kept" if outcome.faults else None)
    outcome.resumed = scene.resumed
    outcome.disturbances = scene.closed + scene.open
    outcome.starts = scene.instance.starts
    outcome.seconds = time.monotonic() - began
    return outcome


def table(outcome: Outcome) -> str:
    """Return recovery times by kind of disturbance."""
    rows: dict[str, list[Disturbance]] = defaultdict(list)
    for disturbance in outcome.disturbances:
        rows[disturbance.kind].append(disturbance)
    lines = ["| disturbance | times | recovery: median | max |", "| --- | ---: | ---: | ---: |"]
    for kind in [*sorted(rows), "all"]:
        group = outcome.disturbances if kind == "all" else rows[kind]
        took = [disturbance.recovery for disturbance in group if disturbance.recovery is not None]
        figures = f"{statistics.median(took):.1f} s | {max(took):.1f} s" if took else "– | –"
        lines.append(f"| {kind} | {len(group)} | {figures} |")
    return "\n".join(lines)


def main() -> int:
    """Run the soak test, print the table and the faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="number of disturbances")
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")), help="default: the date")
    parser.add_argument("--pause", type=float, default=2.5, help="mean seconds between two disturbances")
    parser.add_argument("--iterations", type=int, default=40, help="iterations of each run")
    parser.add_argument("--seeds", type=int, default=3, help="different runs, each with an undisturbed one to compare")
    parser.add_argument("--runs", type=int, default=3, help="runs that are waiting or training at a time")
    parser.add_argument("--only", choices=sorted(KINDS), nargs="+", help="kinds of disturbances; default: all")
    parser.add_argument("--older", default="", metavar="REVISION", help="the older version; default: the newest tag")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not Path("/proc/self/task").exists():
        parser.error("this command needs Linux: it finds processes through /proc")
    home = Path(tempfile.mkdtemp(prefix="echoscope-soak-"))
    home.chmod(0o755)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"{machine.describe()}; seed {options.seed}", flush=True)
    try:
        outcome = soak(
            options.kills,
            options.seed,
            configs(options.iterations, options.seeds),
            options.pause,
            options.runs,
            home,
            options.only or list(KINDS),
            options.older,
        )
    except KeyboardInterrupt:
        shutil.rmtree(home, ignore_errors=True)
        print("Interrupted; everything that was started has ended.")
        return 130
    print(f"\n{table(outcome)}\n")
    print(
        f"{len(outcome.disturbances)} disturbances in {outcome.seconds / 60:.1f} minutes; {outcome.runs} runs with "
        f"{outcome.attempts} attempts, {outcome.rebuilds} rebuilds after cuts and {outcome.events:,} events; clients "
        f"received {outcome.received:,} events, {outcome.compared:,} of them compared with the database at once, "
        f"dropped {outcome.drops} times and stalled {outcome.stalls} times; "
        f"{outcome.starts} starts of manage.py up, {outcome.resumed} runs resumed after a full disk."
    )
    for fault in outcome.faults:
        print(f"FAULT: {fault}")
    if options.json:
        options.json.write_text(json.dumps(figures(outcome, options.seed), indent=2) + "\n")
    if outcome.faults:
        print(f"{len(outcome.faults)} faults; everything is kept in {home}")
        return 1
    shutil.rmtree(home, ignore_errors=True)
    print("No event lost, doubled or reordered; all weights as without disturbances; no process left over.")
    return 0


def figures(outcome: Outcome, seed: int) -> dict[str, Any]:
    """Return the outcome for the JSON file; times in seconds since the first disturbance."""
    first = min((disturbance.began for disturbance in outcome.disturbances), default=0.0)
    listed = sorted(outcome.disturbances, key=lambda disturbance: disturbance.began)
    return {
        "machine": machine.describe(),
        "seed": seed,
        **asdict_without(outcome),
        "disturbances": [
            {"kind": disturbance.kind, "at": round(disturbance.began - first, 2), "recovery": disturbance.recovery}
            for disturbance in listed
        ],
    }


def asdict_without(outcome: Outcome) -> dict[str, Any]:
    """Return fields of the outcome except its disturbances, which contain functions."""
    return {name: value for name, value in vars(outcome).items() if name != "disturbances"}
