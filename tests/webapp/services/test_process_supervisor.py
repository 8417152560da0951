"""The supervisor of `make up` restarts real programs that hang or shut down by themselves, and no others."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import redis

from tests.patience import SECONDS
from webapp.services.addresses import ROOT, free_port
from webapp.services.postgres import Postgres
from webapp.services.redis import Redis

SUPERVISOR = """
import json, sys
from pathlib import Path
from webapp.services.child_process import Program
from webapp.services.liveness_checks import LivenessAnswer, Patience
from webapp.services.postgres import Postgres
from webapp.services.process_supervisor import ProcessSupervisor
from webapp.services.redis import Redis

home, database_port, redis_port = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
group = ProcessSupervisor(lambda line: print(line, flush=True), Patience(interval=0.2, silence=3.0, grace=1.0))
group.install_signal_handlers()
sign = home / "sign"
sleeper = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(9e4)"]
group.wait(
    group.start(Postgres(home / "postgres", database_port, "secret", durable=False).program(home / "postgres.log")),
    group.start(Redis(home / "redis", redis_port, "secret").program(home / "redis.log")),
    group.start(
        Program(
            "Sleeper", sleeper, home / "sleeper.log", ready=lambda: True,
            alive=lambda: LivenessAnswer.NO if sign.exists() else LivenessAnswer.YES,
            prepare=lambda: sign.unlink(missing_ok=True),
        )
    ),
)
known = {}
outages = {}

def monitor(pids):
    for outage in group.outages():
        times = f"{outage.since} {outage.until}"
        if outages.get(outage.program) != times:
            outages[outage.program] = times
            print(f"{outage.program} was away: {times}", flush=True)
    if pids != known:
        known.update(pids)
        print(json.dumps(pids), flush=True)

group.watch(monitor)
group.stop()
"""


class Site:
    """A supervisor with PostgreSQL, Valkey and a program that ignores SIGTERM, and what it prints."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.postgres = Postgres(home / "postgres", free_port(), "secret", durable=False)
        self.postgres.initialise()
        self.redis = Redis(home / "redis", free_port(), "secret")
        argv = [sys.executable, "-c", SUPERVISOR, str(home), str(self.postgres.port), str(self.redis.port)]
        self.process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._queue: queue.Queue[str | None] = queue.Queue()  # lines, and None at the end
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        self.pids = json.loads(self.wait_for(lambda line: line.startswith("{")))

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.strip())
        self._queue.put(None)

    def wait_for(self, accept: Callable[[str], bool]) -> str:
        """The next line that is accepted."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                line = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                pytest.fail(f"no such line among {self.lines}")
            self.lines.append(line)
            if line.startswith("{"):
                self.pids = json.loads(line)
            if accept(line):
                return line

    def healed(self, name: str) -> float:
        """Seconds until the supervisor reports that the program is ready again, with another process."""
        began, before = time.monotonic(), self.pids[name]
        self.wait_for(lambda line: line.startswith(f"{name} is ready again"))
        if self.pids[name] == before:
            self.wait_for(lambda line: line.startswith("{") and json.loads(line)[name] != before)
        self.wait_for(lambda line: line.startswith(f"{name} was away: ") and not line.endswith("None"))
        return time.monotonic() - began

    def outage(self, name: str) -> tuple[float, float]:
        """Begin and end of the last outage."""
        line = next(line for line in reversed(self.lines) if line.startswith(f"{name} was away: "))
        since, until = line.rsplit(" ", 2)[1:]
        return float(since), float(until)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        yield site
    finally:
        site.process.send_signal(signal.SIGTERM)
        site.process.wait(SECONDS)


def test_a_postgresql_that_shuts_down_and_waits_for_its_clients_is_restarted_at_once(site: Site) -> None:
    with suppress(psycopg.OperationalError), psycopg.connect(site.postgres.url("postgres")) as client:
        os.kill(site.pids["PostgreSQL"], signal.SIGTERM)  # a smart shutdown: no new connections, the open ones go on
        site.wait_for(lambda line: line == "PostgreSQL is shutting down by itself; restarting it.")
        site.healed("PostgreSQL")
        client.execute("SELECT 1")
    assert site.postgres.answers()


@pytest.mark.parametrize("name", ["PostgreSQL", "Redis", "Sleeper"])
def test_a_suspended_program_is_restarted(site: Site, name: str) -> None:
    os.kill(site.pids[name], signal.SIGSTOP)
    suspended = time.time()
    assert site.healed(name) >= 3
    since, until = site.outage(name)
    assert suspended <= since <= until - 3, "away since it was first asked in vain"
    assert until <= time.time()
    assert any(line.startswith(f"{name} was away: ") and line.endswith("None") for line in site.lines)
    assert any(line.startswith(f"{name} has not answered for ") for line in site.lines)
    assert site.postgres.answers()
    assert site.redis.answers()


def test_a_redis_in_an_endless_script_is_killed(site: Site) -> None:
    client = redis.Redis.from_url(site.redis.url())
    with pytest.raises(redis.RedisError):
        client.eval("while true do end", 0)
    site.healed("Redis")
    assert site.redis.answers()


def test_a_program_that_ignores_the_stop_signal_is_killed(site: Site) -> None:
    site.lines.clear()
    (site.home / "sign").touch()
    site.healed("Sleeper")
    assert "Sleeper did not stop in time and was killed." in site.lines


def test_a_short_silence_ends_nothing(site: Site) -> None:
    before = dict(site.pids)
    for name in ("PostgreSQL", "Redis", "Sleeper"):
        os.kill(before[name], signal.SIGSTOP)
        time.sleep(1)
        os.kill(before[name], signal.SIGCONT)
    time.sleep(4)  # longer than a silence that counts
    assert site.postgres.answers()
    for name, pid in before.items():
        os.kill(pid, 0)
        assert site.pids[name] == pid
    assert site._queue.empty()


SERIES = """
import sys
from pathlib import Path
from webapp.services import process_supervisor
from webapp.services.child_process import Program
from webapp.services.liveness_checks import LivenessAnswer, Patience

process_supervisor.STABLE_AFTER = 1.5
group = process_supervisor.ProcessSupervisor(lambda line: print(line, flush=True), Patience())
group.install_signal_handlers()
for name, code in (("Steady", "import time; time.sleep(2.5)"), ("Broken", "")):
    program = Program(
        name, [sys.executable, "-S", "-c", code], Path(sys.argv[1]) / name, ready=lambda: True,
        alive=lambda: LivenessAnswer.YES,
    )
    group.start(program)
group.watch(lambda pids: None)
group.stop()
"""


def test_only_ends_in_close_succession_delay_the_next_start(tmp_path: Path) -> None:
    """A program that served before it ended starts again at once; only a program that cannot run waits longer."""
    argv = [sys.executable, "-c", SERIES, str(tmp_path)]
    delays: dict[str, list[float]] = {"Steady": [], "Broken": []}
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "restarting it in" in line:
                delays[line.split()[0]].append(float(line.split()[-2]))
            if len(delays["Steady"]) == 3:
                process.terminate()
    assert delays["Steady"] == [0.2, 0.2, 0.2]
    assert delays["Broken"][:4] == [0.2, 0.4, 0.8, 1.6]
