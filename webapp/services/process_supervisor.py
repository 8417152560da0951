"""Process supervisor: starts a group of programs, restarts those that die or hang, stops them all.

Programs are started from the main thread: PR_SET_PDEATHSIG ties a child to the thread that started it.
"""

from __future__ import annotations

import math
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from types import FrameType

from webapp.services import child_process as programs
from webapp.services import subreaper
from webapp.services.child_process import Program
from webapp.services.liveness_checks import Liveness, LivenessAnswer, Patience
from webapp.services.signal_wait import SignalWait
from webapp.services.watchdog import Watchdog

FIRST_DELAY = 0.2
MAX_DELAY = 30.0
STABLE_AFTER = 10.0
"""Seconds of service after which an end is no longer part of a series, and the next restart waits for FIRST_DELAY."""
READY_INTERVAL = 0.1
"""Seconds between two checks whether a restarted program is ready."""


@dataclass
class Outage:
    """A time during which a program was unavailable, in seconds since 1970. `until` is None while it still is."""

    program: str
    since: float
    until: float | None = None


Log = Callable[[str], None]
Monitor = Callable[[dict[str, int]], None]


@dataclass
class SupervisedProcess:
    """A supervised program with its process and the failures of a series.

    Attributes:
        ready_at: since when it has been serving.
        kill_at: when it is killed if it hangs.
    """

    program: Program
    process: subprocess.Popen[bytes]
    liveness: Liveness
    ready_at: float
    failures: int = 0
    kill_at: float | None = None
    again_at: float | None = None
    died_at: float | None = None
    rotation_failed: bool = False


class ProcessSupervisor:
    """Supervises a group of programs. `log` receives one line per event for the operator."""

    def __init__(self, log: Log, patience: Patience | None = None) -> None:
        self._log = log
        self._patience = patience or Patience()
        self.stopping = False
        self._members: list[SupervisedProcess] = []
        self._outages: dict[str, Outage] = {}
        self._watchdog = Watchdog()
        subreaper.become_subreaper()

    def install_signal_handlers(self) -> None:
        """Stop the group on Ctrl-C, SIGTERM or a closed terminal; a second Ctrl-C kills it."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stopping and number == signal.SIGINT:
            for member in self._members:
                programs.kill_group(member.process.pid)
        self.stopping = True

    def start(self, program: Program) -> SupervisedProcess:
        """Start a program without waiting until it is ready."""
        process, now = programs.spawn(program), time.monotonic()
        member = SupervisedProcess(program, process, Liveness(process.pid, now), ready_at=now)
        self._watchdog.add(member.process.pid, program.stop_signal)
        self._members.append(member)
        return member

    def wait(self, *members: SupervisedProcess, seconds: float = 120.0) -> None:
        """Wait until all of them are ready. Raises NotReady."""
        for member in members:
            programs.wait_ready(member.program, member.process, seconds)

    def watch(self, monitor: Monitor) -> None:
        """Supervise the group until it is stopped: look at it when a child has ended, and when something is due.

        `monitor` is called after each look with the process ids.
        """
        with closing(SignalWait()) as signals:
            while not self.stopping:
                for member in self._members:
                    self._check(member)
                    self._rotate(member)
                subreaper.reap(*self._managed_pids())
                monitor(self.pids())
                due = min((self._next_look(member) for member in self._members), default=math.inf)
                signals.wait(min(due - time.monotonic(), self._patience.interval))

    def _next_look(self, member: SupervisedProcess) -> float:
        """Return when something is due for a program, by the monotonic clock."""
        if member.again_at is not None:
            return member.again_at
        if member.died_at is not None:
            return time.monotonic() + READY_INTERVAL
        return member.liveness.next_at if member.kill_at is None else member.kill_at

    def _rotate(self, member: SupervisedProcess) -> None:
        """Rotate a program's log. A log that cannot be rotated does no harm and is reported once."""
        try:
            programs.rotate(member.program.log)
            member.rotation_failed = False
        except OSError as error:
            if not member.rotation_failed:
                self._log(f"The log of {member.program.name} cannot be rotated: {error}")
            member.rotation_failed = True

    def pids(self) -> dict[str, int]:
        """Return each program's process id by name."""
        return {member.program.name: member.process.pid for member in self._members}

    def outages(self) -> list[Outage]:
        """Return the last outage of each program that had one."""
        return list(self._outages.values())

    def _note_away(self, member: SupervisedProcess, seconds: float = 0.0) -> None:
        """Note that a program has been unavailable for so many seconds, unless that is known."""
        name = member.program.name
        last = self._outages.get(name)
        if last is None or last.until is not None:
            self._outages[name] = Outage(name, time.time() - seconds)

    def _managed_pids(self) -> list[int]:
        return [self._watchdog.pid, *self.pids().values()]

    def _check(self, member: SupervisedProcess) -> None:
        now = time.monotonic()
        if member.again_at is not None:
            if now >= member.again_at:
                self._restart(member)
        elif member.process.poll() is not None:
            self._on_exit(member, now)
        elif member.died_at is not None and member.program.ready():
            self._log(f"{member.program.name} is ready again after {now - member.died_at:.1f} s.")
            member.died_at, member.ready_at = None, now
            self._outages[member.program.name].until = time.time()
        else:
            self._ask(member, now)

    def _ask(self, member: SupervisedProcess, now: float) -> None:
        """Check periodically whether a program still answers.

        Stop it if it does not, and kill it if it does not stop.
        """
        program = member.program
        if member.kill_at is not None:
            if now >= member.kill_at:
                self._log(f"{program.name} did not stop in time and was killed.")
                programs.kill_group(member.process.pid)
                member.kill_at = now + self._patience.grace
        elif now >= member.liveness.next_at:
            answer = program.alive()
            problem = member.liveness.problem(answer, time.monotonic(), self._patience)
            if problem:
                self._log(f"{program.name} {problem}; restarting it.")
                silent = member.liveness.silent_since
                self._note_away(member, 0.0 if silent is None else time.monotonic() - silent)
                programs.send_stop_signal(program, member.process)
                member.process.send_signal(signal.SIGCONT)  # a suspended process receives no other signal
                grace = program.stop_seconds if answer is LivenessAnswer.SHUTTING_DOWN else self._patience.grace
                member.kill_at = time.monotonic() + grace

    def _on_exit(self, member: SupervisedProcess, now: float) -> None:
        programs.kill_group(member.process.pid)
        self._watchdog.remove(member.process.pid)
        if member.died_at is None and now - member.ready_at > STABLE_AFTER:
            member.failures = 0
        delay = min(FIRST_DELAY * 2**member.failures, MAX_DELAY)
        member.failures += 1
        member.again_at = now + delay
        member.died_at = member.died_at or now
        self._note_away(member)
        self._log(f"{member.program.name} ended ({programs.ending(member.process)}); restarting it in {delay:.1f} s.")
        if member.failures == 4:
            self._log(programs.tail(member.program.log))

    def _restart(self, member: SupervisedProcess) -> None:
        try:
            member.process = programs.spawn(member.program)
        except (OSError, RuntimeError) as error:  # no memory, no disk, a stale process: retry later
            member.failures += 1
            delay = min(FIRST_DELAY * 2**member.failures, MAX_DELAY)
            member.again_at = time.monotonic() + delay
            self._log(f"{member.program.name} could not be started: {error} Retrying in {delay:.0f} s.")
            return
        self._watchdog.add(member.process.pid, member.program.stop_signal)
        member.again_at = member.kill_at = None
        member.liveness = Liveness(member.process.pid, time.monotonic())

    def stop(self) -> None:
        """Stop the programs, foundations last, and wait for their orphans."""
        self.stopping = True
        for foundation in (False, True):
            group = [member for member in reversed(self._members) if member.program.foundation is foundation]
            for member in group:
                programs.send_stop_signal(member.program, member.process)
            for member in group:
                if not programs.finish(member.program, member.process):
                    self._log(f"{member.program.name} did not stop in time and was killed.")
                self._watchdog.remove(member.process.pid)
            subreaper.wait_for_orphans(*self._managed_pids())
        self._members.clear()
        self._watchdog.close()
