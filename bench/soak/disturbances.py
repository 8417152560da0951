"""Disturbances that kill, freeze, cut or slow down parts of the product, and how each shows that it has recovered."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from bench.soak.checks import Cut
from bench.soak.instance import children, is_alive
from bench.soak.network import Weather
from bench.soak.observer import RunState
from bench.soak.recovery import Disturbance
from bench.soak.scene import Scene
from bench.soak.wrong_clock import set_error
from trainer.journal.protocol import JOURNAL_FILE

LONG_FREEZE = 26.0  # seconds, longer than a lease
DEATH_TIMEOUT = 10.0
LONGEST_JUMP = 86_400.0
FULL_DISK = "fill the disk"
OTHER_WEB = "change the version of the second web server"
OTHER_WORKER = "change the version of the second worker"

Maker = Callable[[Scene, random.Random], Disturbance | None]
"""Begins a disturbance; None if it is not possible now."""


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _wait_dead(pid: int) -> None:
    deadline = time.monotonic() + DEATH_TIMEOUT
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def _runs_on(scene: Scene, *workers: str) -> list[RunState]:
    """Return runs of these workers, or of any, that train now: starting or waiting runs would show nothing."""
    held = {run.slug for disturbance in scene.open for run in disturbance.affected}
    runs = [run for run in scene.running() if run.state == "running" and run.slug not in held]
    return [run for run in runs if not workers or run.worker.startswith(workers)]


def _kill_part(kind: str, name: str, number: signal.Signals = signal.SIGKILL) -> Maker:
    """Return a disturbance that ends a program by a signal; its supervisor restarts it."""

    def begin(scene: Scene, dice: random.Random) -> Disturbance | None:
        pid = scene.part(name)
        if pid is None:
            return None
        affected = {
            "Worker": _runs_on(scene, "worker@"),
            "second worker": _runs_on(scene, "second@"),
            "Web": [],
            "second web": [],
            "Clock": [],
        }.get(name, _runs_on(scene))
        connections = scene.connections(name)
        if not _signal(pid, number):
            return None

        def is_back() -> bool:
            return scene.part(name) not in (None, pid) and scene.answers(name, connections)

        return Disturbance(kind, is_back, affected)

    return begin


def _freeze_part(kind: str, name: str, longest: float) -> Maker:
    """Return a disturbance that sends a program SIGSTOP, and SIGCONT later."""

    def begin(scene: Scene, dice: random.Random) -> Disturbance | None:
        seconds = dice.uniform(0.5, longest)
        pid = scene.part(name)
        if pid is None or not _signal(pid, signal.SIGSTOP):
            return None

        def undo() -> None:
            _signal(pid, signal.SIGCONT)

        affected = _runs_on(scene) if name in {"PostgreSQL", "Redis", "Worker"} else []
        return Disturbance(kind, lambda: scene.answers(name, -1), affected, undo, time.monotonic() + seconds)

    return begin


def _trainer(scene: Scene, run: RunState) -> int | None:
    """Return the process id of the run's trainer, if it is running."""
    record = scene.folder(run.slug).parents[1] / "trainers" / f"{run.slug}.json"
    try:
        pid = int(json.loads(record.read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return None
    return pid if is_alive(pid) else None


def _pool_child(scene: Scene, trainer: int) -> int | None:
    """Return the process id of the pool child that supervises this trainer."""
    workers = [pid for name in ("Worker", "second worker") if (pid := scene.part(name)) is not None]
    for worker in workers:
        for child in children(worker):
            if trainer in children(child):
                return child
    return None


def _choose(scene: Scene, dice: random.Random) -> tuple[RunState, int] | None:
    """Return a running run that no other disturbance delays, and its trainer."""
    position = dice.random()
    held = {run.slug for disturbance in scene.open for run in disturbance.affected}
    runs = [(run, pid) for run in scene.running() if run.slug not in held and (pid := _trainer(scene, run))]
    return runs[int(position * len(runs))] if runs else None


def kill_trainer(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Kill a trainer. The product allows three kills in a row without an iteration between them."""
    chosen = _choose(scene, dice)
    if chosen is None:
        return None
    run, pid = chosen
    if run.iteration <= scene.crash_iterations.get(run.slug, -1) or not _signal(pid, signal.SIGKILL):
        return None
    scene.crash_iterations[run.slug] = run.iteration
    return Disturbance("kill the trainer", lambda: scene.next_attempt(run), [run])


def end_trainer(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Send SIGTERM to a trainer, as in a shutdown: it writes a checkpoint, and its run is queued again."""
    chosen = _choose(scene, dice)
    if chosen is None or not _signal(chosen[1], signal.SIGTERM):
        return None
    run = chosen[0]
    return Disturbance("end the trainer", lambda: scene.next_attempt(run), [run])


def freeze_trainer(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Send SIGSTOP to a trainer."""
    seconds = dice.uniform(0.5, 5)
    chosen = _choose(scene, dice)
    if chosen is None or not _signal(chosen[1], signal.SIGSTOP):
        return None
    run, pid = chosen

    def undo() -> None:
        _signal(pid, signal.SIGCONT)

    return Disturbance("freeze the trainer", lambda: True, [run], undo, time.monotonic() + seconds)


def kill_pool_child(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Kill the worker's process that supervises a run; the lease of the run has to expire."""
    chosen = _choose(scene, dice)
    child = _pool_child(scene, chosen[1]) if chosen else None
    if chosen is None or child is None or not _signal(child, signal.SIGKILL):
        return None
    run = chosen[0]
    return Disturbance("kill the pool child", lambda: scene.next_attempt(run), [run])


def _freeze_pool_child(kind: str, longest: float, shortest: float) -> Maker:
    def begin(scene: Scene, dice: random.Random) -> Disturbance | None:
        seconds = dice.uniform(shortest, longest)
        chosen = _choose(scene, dice)
        child = _pool_child(scene, chosen[1]) if chosen else None
        if chosen is None or child is None or not _signal(child, signal.SIGSTOP):
            return None

        def undo() -> None:
            _signal(child, signal.SIGCONT)

        return Disturbance(kind, lambda: True, [chosen[0]], undo, time.monotonic() + seconds)

    return begin


def cut_power(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Kill all processes of a run and cut its journal somewhere after the last sync, which precedes each checkpoint."""
    position = dice.random()
    chosen = _choose(scene, dice)
    child = _pool_child(scene, chosen[1]) if chosen else None
    if chosen is None or child is None or not (scene.folder(chosen[0].slug) / JOURNAL_FILE).exists():
        return None
    if not _signal(child, signal.SIGSTOP):
        return None
    run, trainer = chosen
    _signal(trainer, signal.SIGKILL)
    _wait_dead(trainer)
    lines = cut_journal(scene.folder(run.slug), position)
    if lines is not None:
        scene.cuts.setdefault(run.slug, []).append(Cut(run.rebuilds, lines))
    _signal(child, signal.SIGKILL)
    return Disturbance("cut the power of a run", lambda: scene.next_attempt(run), [run])


def cut_journal(folder: Path, position: float) -> int | None:
    """Cut the journal at a random unsynced byte. Returns the whole lines left, or None if everything is synced.

    Args:
        position: share of the unsynced bytes that remain, 0 to 1.
    """
    path = folder / JOURNAL_FILE
    data = path.read_bytes()
    covered, synced, offset = 0, 0, 0
    for line in data.splitlines(keepends=True):
        if b'"type":"checkpoint"' in line:
            synced, covered = offset, json.loads(line)["iteration"]
        offset += len(line)
    newest = max((int(path.parent.name) for path in folder.glob("checkpoints/[0-9]*/state.json")), default=0)
    if newest > covered:  # it was completed, and the journal synced, but its event is missing
        return None
    size = synced + int(position * (len(data) - synced))
    os.truncate(path, size)
    return data[:size].count(b"\n")


def kill_backend(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Kill a PostgreSQL backend, after which PostgreSQL ends all others and recovers."""
    return _on_backend(scene, dice, "kill a PostgreSQL backend", signal.SIGKILL, 0)


def end_backend(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Send SIGTERM to a PostgreSQL backend, as pg_terminate_backend does."""
    return _on_backend(scene, dice, "end a PostgreSQL backend", signal.SIGTERM, 0)


def freeze_backend(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Send SIGSTOP to a PostgreSQL backend."""
    return _on_backend(scene, dice, "freeze a PostgreSQL backend", signal.SIGSTOP, dice.uniform(0.5, 5))


def _on_backend(
    scene: Scene, dice: random.Random, kind: str, number: signal.Signals, seconds: float
) -> Disturbance | None:
    position, postmaster = dice.random(), scene.part("PostgreSQL")
    backends = [pid for pid, line in children(postmaster).items() if "127.0.0.1(" in line] if postmaster else []
    if not backends:
        return None
    pid = backends[int(position * len(backends))]
    affected = _runs_on(scene)
    if not _signal(pid, number):
        return None

    def undo() -> None:
        _signal(pid, signal.SIGCONT)

    frozen = number == signal.SIGSTOP
    back = scene.observer.round
    return Disturbance(
        kind,
        lambda: scene.observer.round > back,
        affected,
        undo if frozen else None,
        time.monotonic() + seconds if frozen else 0.0,
    )


def kill_watchdog(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Kill the watchdog, which is not restarted; without it, programs still die with their parent."""
    pid = scene.instance.watchdog()
    if pid is None or not _signal(pid, signal.SIGKILL):
        return None
    return Disturbance("kill the watchdog", lambda: True, _runs_on(scene))


def kill_supervisor(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Kill `manage.py up`; its operator starts it again once its programs have gone."""
    process = scene.instance.process
    if process is None or process.poll() is not None or scene.open:
        return None
    affected = _runs_on(scene)
    process.kill()
    process.wait()
    scene.restart_when_possible = True
    return Disturbance("kill manage.py up", lambda: not scene.restart_when_possible, affected, exclusive=True)


def jump_clock(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Set the clock of the second machine forward or back by up to a day, for good."""
    affected = _runs_on(scene, "second@")
    set_error(scene.clock, dice.uniform(-LONGEST_JUMP, LONGEST_JUMP))
    return Disturbance("jump the second clock", scene.second.web_is_ready, affected)


def _change_version(kind: str, name: str) -> Maker:
    """Return a disturbance that stops a program and starts its other version: the older one, or this one again.

    It remains of that version during later disturbances, next to programs of this version.
    """

    def begin(scene: Scene, dice: random.Random) -> Disturbance | None:
        pid = scene.part(name)
        if pid is None or scene.older is None:
            return None
        affected = _runs_on(scene, "second@") if kind == OTHER_WORKER else []
        connections = scene.connections(name)
        scene.second.change_version(name)

        def is_back() -> bool:
            return scene.part(name) not in (None, pid) and scene.answers(name, connections)

        return Disturbance(kind, is_back, affected)

    return begin


def lose_storage(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Let every access to the object storage fail for seconds. Training continues, and copies are made later."""
    seconds = dice.uniform(2, 20)
    storage, hidden = scene.instance.storage, scene.instance.storage.with_name("lost-storage")
    if not storage.is_dir():  # nothing was copied yet
        return None
    storage.rename(hidden)
    storage.touch()  # nor can a folder be created in its place

    def undo() -> None:
        storage.unlink()
        hidden.rename(storage)

    return Disturbance("lose the storage", lambda: True, _runs_on(scene), undo, time.monotonic() + seconds)


def fill_disk(scene: Scene, dice: random.Random) -> Disturbance | None:
    """Fill the disk of the data folder for seconds. Trainers fail for this reason; their operator resumes the runs."""
    seconds = dice.uniform(0.5, 5)
    if scene.disk is None or scene.open:
        return None
    affected = _runs_on(scene)
    scene.disk.fill()
    back = scene.observer.round

    def is_back() -> bool:
        programs = ("Web", "second web", "Redis", "PostgreSQL")
        return scene.observer.round > back and all(scene.answers(name, -1) for name in programs)

    return Disturbance(FULL_DISK, is_back, affected, scene.disk.free, time.monotonic() + seconds, exclusive=True)


def _network(kind: str, name: str, weather: Weather | None, longest: float = 0.0) -> Maker:
    """Return a change of the second machine's connection to a server, or a reset of all its connections."""

    def begin(scene: Scene, dice: random.Random) -> Disturbance | None:
        seconds = dice.uniform(1, max(1.0, longest))
        proxy = scene.proxies[name]
        affected = _runs_on(scene, "second@")
        if weather is None:
            scene.call(proxy.reset())
            return Disturbance(kind, scene.second.web_is_ready, affected)
        if any(disturbance.kind == kind for disturbance in scene.open):
            return None
        scene.call(proxy.set_weather(weather))

        def undo() -> None:
            scene.call(proxy.set_weather(Weather.FINE))

        return Disturbance(kind, scene.second.web_is_ready, affected, undo, time.monotonic() + seconds)

    return begin


KINDS: dict[str, tuple[int, Maker]] = {
    "kill the trainer": (10, kill_trainer),
    "end the trainer": (4, end_trainer),
    "freeze the trainer": (5, freeze_trainer),
    "kill the pool child": (4, kill_pool_child),
    "freeze the pool child": (4, _freeze_pool_child("freeze the pool child", 5, 0.5)),
    "freeze the pool child beyond its lease": (
        1,
        _freeze_pool_child("freeze the pool child beyond its lease", LONG_FREEZE + 4, LONG_FREEZE),
    ),
    "cut the power of a run": (5, cut_power),
    "kill the web server": (7, _kill_part("kill the web server", "Web")),
    "end the web server": (2, _kill_part("end the web server", "Web", signal.SIGTERM)),
    "freeze the web server": (4, _freeze_part("freeze the web server", "Web", 4)),
    "kill the worker": (3, _kill_part("kill the worker", "Worker")),
    "end the worker": (2, _kill_part("end the worker", "Worker", signal.SIGTERM)),
    "freeze the worker": (3, _freeze_part("freeze the worker", "Worker", 5)),
    "kill the clock": (4, _kill_part("kill the clock", "Clock")),
    "end the clock": (2, _kill_part("end the clock", "Clock", signal.SIGTERM)),
    "freeze the clock": (3, _freeze_part("freeze the clock", "Clock", 5)),
    "kill Redis": (6, _kill_part("kill Redis", "Redis")),
    "end Redis": (2, _kill_part("end Redis", "Redis", signal.SIGTERM)),
    "freeze Redis": (4, _freeze_part("freeze Redis", "Redis", 5)),
    "kill PostgreSQL": (4, _kill_part("kill PostgreSQL", "PostgreSQL")),
    "end PostgreSQL": (2, _kill_part("end PostgreSQL", "PostgreSQL", signal.SIGTERM)),
    "freeze PostgreSQL": (3, _freeze_part("freeze PostgreSQL", "PostgreSQL", 5)),
    "kill a PostgreSQL backend": (4, kill_backend),
    "end a PostgreSQL backend": (6, end_backend),
    "freeze a PostgreSQL backend": (4, freeze_backend),
    "kill the second worker": (3, _kill_part("kill the second worker", "second worker")),
    "kill the second web server": (4, _kill_part("kill the second web server", "second web")),
    "freeze the second web server": (3, _freeze_part("freeze the second web server", "second web", 4)),
    "slow PostgreSQL": (3, _network("slow PostgreSQL", "PostgreSQL", Weather.SLOW, 8)),
    "silent PostgreSQL": (3, _network("silent PostgreSQL", "PostgreSQL", Weather.SILENT, 6)),
    "reset PostgreSQL connections": (5, _network("reset PostgreSQL connections", "PostgreSQL", None)),
    "slow Redis": (3, _network("slow Redis", "Redis", Weather.SLOW, 8)),
    "silent Redis": (3, _network("silent Redis", "Redis", Weather.SILENT, 6)),
    "reset Redis connections": (5, _network("reset Redis connections", "Redis", None)),
    "jump the second clock": (4, jump_clock),
    "lose the storage": (4, lose_storage),
    OTHER_WEB: (4, _change_version(OTHER_WEB, "second web")),
    OTHER_WORKER: (4, _change_version(OTHER_WORKER, "second worker")),
    FULL_DISK: (3, fill_disk),
    "kill the watchdog": (1, kill_watchdog),
    "kill manage.py up": (2, kill_supervisor),
}
"""Name, weight in the plan, and how it begins."""
ALONE = {"kill manage.py up", FULL_DISK}
"""Kinds that begin only once the product has recovered from all others, which therefore wait for them."""
CHANGES_OF_VERSION = {OTHER_WEB, OTHER_WORKER}


def plan(seed: int, kinds: Collection[str] = tuple(KINDS)) -> Iterator[tuple[str, int]]:
    """Yield an endless order of (name, seed of its choices): each of the kinds once, then by weight."""
    dice = random.Random(seed)
    names = [name for name in KINDS if name in kinds]
    first = list(names)
    dice.shuffle(first)
    for name in first:
        yield name, dice.randrange(2**32)
    weights = [KINDS[name][0] for name in names]
    while True:
        yield dice.choices(names, weights)[0], dice.randrange(2**32)
