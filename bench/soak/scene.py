"""The disturbed product: its runs, clients and proxies, and the disturbances under way."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psycopg
import redis

from bench.soak import self_check
from bench.soak.checks import Cut, reached_end
from bench.soak.clients import Follower, Manner
from bench.soak.histories import CommitWatch
from bench.soak.instance import Instance, InstanceError, SecondMachine
from bench.soak.network import Proxy, Weather
from bench.soak.observer import Observer, RunState
from bench.soak.older_version import OlderVersion
from bench.soak.recovery import Disturbance
from bench.soak.small_disk import SmallDisk
from bench.soak.wrong_clock import set_error
from trainer.config.run import RunConfig

T = TypeVar("T")

RECOVERY_TIMEOUT = 240.0
"""Seconds after which the product counts as stuck."""
CLIENTS = (Manner.STEADY, Manner.DROPS, Manner.STALLS)
CLOCK_ERROR = 3600.0
LAUNCH_INTERVAL = 1.0
STARTS = 3
"""Starts of `manage.py up` that may end by themselves, one after another, before the test is given up."""
RESUME_INTERVAL = 1.0


@dataclass
class Scene:
    """An instance with everything around it. All methods but `call` are for the main thread.

    Attributes:
        configs: configurations of the runs, launched in turn.
        slots: number of runs that are queued or running at a time.
        cuts: power cuts by run.
        disk: disk of the data folder, if it can be filled.
        older: version to which programs of the second machine can be changed.
        crash_iterations: iteration of a run at the newest kill of its trainer.
    """

    home: Path
    configs: list[RunConfig]
    seed: int
    slots: int = 3
    disk: SmallDisk | None = None
    older: OlderVersion | None = None
    instance: Instance = field(init=False)
    cuts: dict[str, list[Cut]] = field(default_factory=dict)
    crash_iterations: dict[str, int] = field(default_factory=dict)
    open: list[Disturbance] = field(default_factory=list)
    closed: list[Disturbance] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    launched: dict[str, int] = field(default_factory=dict)
    """Index of the configuration by title."""
    followers: list[Follower] = field(default_factory=list)
    restart_when_possible: bool = False
    accepts_runs: bool = True
    resumed: int = 0
    """Runs that were resumed after a full disk."""

    def __post_init__(self) -> None:
        self.instance = Instance(self.home)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clients", daemon=True)
        self._dice = random.Random(self.seed + 1)
        self._pending: tuple[str, int] | None = None
        self._next_launch = self._next_resume = 0.0
        self._restarting = False
        self._failed_starts = 0
        self._tasks: list[Future[None]] = []
        self._checker = ThreadPoolExecutor(1, "self-check")
        self._self_check: Future[str] | None = None
        self._checked: list[Disturbance] = []
        self._answer = ""

    def start(self) -> None:
        """Start the product, its second machine and the clients' loop."""
        self.instance.start()
        self._thread.start()
        self.proxies = {
            "PostgreSQL": Proxy(lambda: self._port("postgres_port")),
            "Redis": Proxy(lambda: self._port("redis_port")),
        }
        for proxy in self.proxies.values():
            self.call(proxy.start())
        ports = self.proxies["PostgreSQL"].port, self.proxies["Redis"].port
        set_error(self.clock, CLOCK_ERROR)
        self.second = SecondMachine(self.instance, ports, self.clock, self.older)
        self.second.start()
        self.observer = Observer(self.instance)
        self.commits = CommitWatch(self.observer.connect)

    def _port(self, name: str) -> int | None:
        addresses = self.instance.addresses
        return None if addresses is None else int(getattr(addresses, name))

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine in the clients' loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    # ---- interface for disturbances

    @property
    def clock(self) -> Path:
        """Return the file of the second machine's clock, which is not on the disk that may be full."""
        return self.home.with_name("clock")

    def running(self) -> list[RunState]:
        """Return runs that have a trainer or are about to have one."""
        return [run for run in self.observer.runs.values() if run.state in ("starting", "running")]

    def folder(self, slug: str) -> Path:
        return self.home / "runs" / slug

    def next_attempt(self, earlier: RunState) -> bool:
        """Return True if the run has begun another attempt since then, or ended."""
        run = self.observer.runs.get(earlier.slug)
        return run is not None and (run.ended or run.attempt > earlier.attempt)

    def part(self, name: str) -> int | None:
        """Return the process id of a program of either machine."""
        return self.second.pid(name) if name.startswith("second") else self.instance.pid(name)

    def connections(self, name: str) -> int:
        """Return the clients' admitted connections so far to the web server of that name."""
        return sum(follower.connections for follower in self.followers if self._server_name(follower) == name)

    def _server_name(self, follower: Follower) -> str:
        return "second web" if follower.url() == self.second.url else "Web"

    def answers(self, name: str, connections: int) -> bool:
        """Return True if a program answers; a web server must also have admitted a client again, if there are any."""
        addresses = self.instance.addresses
        if addresses is None:
            return False
        if name in ("Web", "second web"):
            ready = self.second.web_is_ready() if name == "second web" else _is_up(self.instance.url)
            awaited = any(not follower.stopped and self._server_name(follower) == name for follower in self.followers)
            return ready and (connections < 0 or not awaited or self.connections(name) > connections)
        if name == "Redis":
            client = redis.Redis(
                port=addresses.redis_port, password=addresses.redis_password, socket_timeout=1, socket_connect_timeout=1
            )
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False
            finally:
                client.close()
        if name == "PostgreSQL":
            try:
                self.observer.connect().close()
            except psycopg.Error:
                return False
        return True

    # ---- the main loop

    def tick(self) -> None:
        """Do one round of work: ends of disturbances, recoveries, restarts, runs and clients."""
        now = time.monotonic()
        self.second.tend()
        self._restart()
        self._close_recovered(now)
        self._follow_runs()
        self._leave_ended_runs()
        self._resume(now)
        if self.accepts_runs:
            self._launch(now)

    def _close_recovered(self, now: float) -> None:
        """Close the disturbances after which everything goes on, once a self-check that began then finds no fault."""
        ready = [disturbance for disturbance in self.open if self._goes_on(disturbance, now)]
        if self._self_check is None:
            if ready:
                self._checked, self._self_check = ready, self._checker.submit(self._wrong_answer)
        elif self._self_check.done():
            self._answer, self._self_check = self._self_check.result(), None
            for disturbance in self._checked:
                if disturbance in ready and not self._answer:
                    disturbance.recovered_at = time.monotonic()
                    self._close(disturbance)
        for disturbance in list(self.open):
            if now - (disturbance.ended or disturbance.began) > RECOVERY_TIMEOUT:
                self._give_up(disturbance)

    def _goes_on(self, disturbance: Disturbance, now: float) -> bool:
        """Return True if the program of a disturbance is back, and its runs have advanced. Undoes it when it is due."""
        if disturbance.undo is not None and not disturbance.ended:
            if now < disturbance.until:
                return False
            disturbance.undo()
            disturbance.ended = time.monotonic()
        runs = self.observer.runs
        return disturbance.recovered() and all(
            earlier.slug in runs and runs[earlier.slug].has_advanced_since(earlier) for earlier in disturbance.affected
        )

    def _give_up(self, disturbance: Disturbance) -> None:
        runs = self.observer.runs
        held = ", ".join(
            earlier.slug for earlier in disturbance.affected if not runs[earlier.slug].has_advanced_since(earlier)
        )
        self.faults.append(
            f"stuck: {disturbance.kind} was not recovered from after {RECOVERY_TIMEOUT:.0f} s "
            f"({'runs ' + held if held else self._answer or 'the program does not answer'})"
        )
        self._close(disturbance)

    def _close(self, disturbance: Disturbance) -> None:
        self.open.remove(disturbance)
        self.closed.append(disturbance)

    def _wrong_answer(self) -> str:
        """Return the first wrong answer of a web server; the second machine's counts only in fair weather."""
        slug = next(iter(self.observer.runs), "")
        is_fine = all(proxy.weather == Weather.FINE for proxy in self.proxies.values())
        for url in (self.instance.url, self.second.url) if is_fine else (self.instance.url,):
            fault = self_check.first_fault(url, slug, self.instance.cookie, self.instance.token) if slug else ""
            if fault:
                return f"{url}{fault}"
        return ""

    def _restart(self) -> None:
        if not self.restart_when_possible:
            return
        if not self._restarting:
            if self.instance.can_launch():
                self.instance.launch()
                self._restarting = True
            return
        try:
            ready = self.instance.is_ready()
        except InstanceError as error:  # the operator tries again
            self.faults.append(str(error))
            self._failed_starts += 1
            self._restarting = False
            if self._failed_starts == STARTS:
                raise
            return
        if ready:
            self.restart_when_possible = self._restarting = False
            self._failed_starts = 0

    def _launch(self, now: float) -> None:
        """Launch the next run, through the API with an idempotency key, if a slot is free."""
        if now < self._next_launch or self.restart_when_possible:
            return
        self._next_launch = now + LAUNCH_INTERVAL
        waiting = [run for run in self.observer.runs.values() if not run.ended]
        unseen = self.launched.keys() - {run.title for run in self.observer.runs.values()}
        if self._pending is None:
            if len(waiting) + len(unseen) >= self.slots:
                return
            self._pending = f"soak {len(self.launched) + 1} {secrets.token_hex(3)}", len(self.launched)
        title, number = self._pending
        index = number % len(self.configs)
        config = self.configs[index].model_copy(update={"name": title}).model_dump(mode="json")
        try:
            self.instance.request("POST", "/runs", {"config": config}, {"Idempotency-Key": title})
        except httpx.HTTPError:
            return  # the same request is repeated
        self.launched[title] = index
        self._pending = None

    def _resume(self, now: float) -> None:
        """Press Resume for the runs that failed because the disk was full, as the failure's text says."""
        full = self.disk is not None and any(
            disturbance.undo == self.disk.free and not disturbance.ended for disturbance in self.open
        )
        if now < self._next_resume or self.restart_when_possible or full:
            return
        self._next_resume = now + RESUME_INTERVAL
        for run in self.observer.runs.values():
            if run.wants_space:
                with contextlib.suppress(httpx.HTTPError):  # the next round tries again
                    self.instance.request("POST", f"/runs/{run.slug}/control", {"action": "resume"})
                    self.resumed += 1

    def _follow_runs(self) -> None:
        followed = {follower.slug for follower in self.followers}
        for run in list(self.observer.runs.values()):
            if run.slug in followed:
                continue
            for number, manner in enumerate(CLIENTS):
                base = self.second.url if number % 2 else self.instance.url
                follower = Follower(
                    lambda base=base: base,
                    run.slug,
                    self.instance.cookie,
                    manner,
                    random.Random(self._dice.randrange(2**32)),
                    self.commits,
                )
                self.followers.append(follower)
                self._tasks.append(asyncio.run_coroutine_threadsafe(follower.follow(), self._loop))

    def _leave_ended_runs(self) -> None:
        """Stop the clients that have everything of a run that has ended, as readers close its page.

        Without it every restart of a web server would be followed by reconnections of all clients so far.
        """
        for follower in self.followers:
            run = self.observer.runs.get(follower.slug)
            if run is not None and run.ended and follower.has_all(run.seq, run.rebuilds):
                follower.stopped = True

    def follow_again(self, journals: dict[str, list[str]]) -> None:
        """Let the clients return that left before the journal got its present end, in a rebuild, say."""
        for follower in self.followers:
            if follower.stopped and not reached_end(follower.segments, journals.get(follower.slug, [])):
                follower.stopped = False
                self._tasks.append(asyncio.run_coroutine_threadsafe(follower.follow(), self._loop))

    def stop_followers_at(self, journals: dict[str, list[str]]) -> bool:
        """Stop clients that have the last event of their run's journal. Returns True once all have stopped."""
        for follower in self.followers:
            digests = journals.get(follower.slug)
            if digests is not None and reached_end(follower.segments, digests):
                follower.stopped = True
        return all(follower.stopped for follower in self.followers)

    def undo_all(self) -> None:
        """End the disturbances that still last."""
        for disturbance in self.open:
            if disturbance.undo is not None and not disturbance.ended:
                disturbance.undo()
                disturbance.ended = time.monotonic()

    def stop(self) -> None:
        """Stop everything, however far the start came."""
        self.undo_all()
        for follower in self.followers:
            follower.stopped = True
        self._checker.shutdown(wait=False, cancel_futures=True)
        for task in self._tasks:
            task.cancel()
        for part in ("second", "commits", "observer"):
            if hasattr(self, part):
                getattr(self, part).stop()
        if fault := self.instance.stop():
            self.faults.append(fault)
        if self._thread.is_alive():
            for proxy in self.proxies.values():
                self.call(proxy.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2, verify=False).status_code < 500
    except httpx.HTTPError:
        return False


def wait(scene: Scene, condition: Callable[[], bool], seconds: float) -> bool:
    """Tend the scene until the condition is true. Returns False after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        scene.tick()
        time.sleep(0.1)
    return True
