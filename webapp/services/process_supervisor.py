"""Keeps a group of programs alive: starts them, starts again what dies, stops them all. Which ones is said elsewhere.

Everything is started from the main thread: Linux ties a child to the thread that started it.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from webapp.services import child_process as programs
from webapp.services import subreaper
from webapp.services.child_process import Program
from webapp.services.watchdog import Watchdog

FIRST_DELAY = 0.2
LONGEST_DELAY = 30.0
GOOD_AFTER = 60.0

Say = Callable[[str], None]
Patrol = Callable[[dict[str, int]], None]


@dataclass
class SupervisedProcess:
    """A program of the group and how it fares."""

    program: Program
    process: subprocess.Popen[bytes]
    started: float
    failures: int = 0
    again_at: float | None = None
    died_at: float | None = None


class ProcessSupervisor:
    """The group. `say` gets one line whenever a person should know something."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.stopping = False
        self._members: list[SupervisedProcess] = []
        self._watchdog = Watchdog()
        subreaper.become_subreaper()

    def heed_signals(self) -> None:
        """Ctrl-C, SIGTERM and a closed terminal end the group in good order; the second time at once."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked_to_stop)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        if self.stopping and number == signal.SIGINT:
            for member in self._members:
                programs.kill_group(member.process.pid)
        self.stopping = True

    def start(self, program: Program) -> SupervisedProcess:
        """Start a program; do not wait for it to serve."""
        member = SupervisedProcess(program, programs.spawn(program), time.monotonic())
        self._watchdog.add(member.process.pid, program.stop_signal)
        self._members.append(member)
        return member

    def wait(self, *members: SupervisedProcess, seconds: float = 120.0) -> None:
        """Return once all of them serve. Raises NotReady."""
        for member in members:
            programs.wait_ready(member.program, member.process, seconds)

    def watch(self, patrol: Patrol, interval: float = 0.1) -> None:
        """Look after the group until asked to stop. `patrol` is called in between with the process ids."""
        while not self.stopping:
            for member in self._members:
                self._look_after(member)
            subreaper.reap(*self._known())
            patrol(self.pids())
            time.sleep(interval)

    def pids(self) -> dict[str, int]:
        """Process id of each program by name."""
        return {member.program.name: member.process.pid for member in self._members}

    def _known(self) -> list[int]:
        return [self._watchdog.pid, *self.pids().values()]

    def _look_after(self, member: SupervisedProcess) -> None:
        now = time.monotonic()
        if member.again_at is not None:
            if now >= member.again_at:
                self._start_again(member)
        elif member.process.poll() is not None:
            self._mourn(member, now)
        elif member.died_at is not None and member.program.ready():
            self.say(f"{member.program.name} serves again after {now - member.died_at:.1f} s.")
            member.died_at = None
        elif member.died_at is None and now - member.started > GOOD_AFTER:
            member.failures = 0

    def _mourn(self, member: SupervisedProcess, now: float) -> None:
        programs.kill_group(member.process.pid)
        self._watchdog.remove(member.process.pid)
        delay = min(FIRST_DELAY * 2**member.failures, LONGEST_DELAY)
        member.failures += 1
        member.again_at = now + delay
        member.died_at = member.died_at or now
        self.say(
            f"{member.program.name} ended ({programs.ending(member.process)}); starting it again in {delay:.1f} s."
        )
        if member.failures == 4:
            self.say(programs.tail(member.program.log))

    def _start_again(self, member: SupervisedProcess) -> None:
        try:
            member.process = programs.spawn(member.program)
        except (OSError, RuntimeError) as error:  # no memory, no disk, a left-over that does not end: try again later
            member.failures += 1
            delay = min(FIRST_DELAY * 2**member.failures, LONGEST_DELAY)
            member.again_at = time.monotonic() + delay
            self.say(f"{member.program.name} could not be started: {error} Trying again in {delay:.0f} s.")
            return
        self._watchdog.add(member.process.pid, member.program.stop_signal)
        member.again_at = None
        member.started = time.monotonic()

    def stop(self) -> None:
        """End the programs, their foundations last. None is left, nor anything that they left behind."""
        self.stopping = True
        for foundation in (False, True):
            group = [member for member in reversed(self._members) if member.program.foundation is foundation]
            for member in group:
                programs.ask(member.program, member.process)
            for member in group:
                if not programs.finish(member.program, member.process):
                    self.say(f"{member.program.name} did not end by itself and was ended by force.")
                self._watchdog.remove(member.process.pid)
            subreaper.wait_for_orphans(*self._known())
        self._members.clear()
        self._watchdog.close()
