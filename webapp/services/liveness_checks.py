"""Liveness checks of running programs: a process may hang without ending."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class LivenessAnswer(Enum):
    """A running program's answer to a liveness check."""

    YES = "yes"
    NO = "no"
    SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True)
class Patience:
    """Limits of a program's silence, in seconds.

    Attributes:
        interval: time between two checks.
        silence: time from the first unanswered check until the program is restarted.
        grace: time for such a program to end by itself.
    """

    interval: float = 5.0
    silence: float = 30.0
    grace: float = 5.0


@dataclass
class Liveness:
    """Answers of one process since its start.

    A process that has not answered yet is not restarted, because it may recover or load data for a long time. A
    suspended process is always silent.
    """

    pid: int
    next_at: float
    has_answered: bool = False
    silent_since: float | None = None

    def problem(self, answer: LivenessAnswer, now: float, patience: Patience) -> str:
        """Explain why the process has to be restarted, as the end of a sentence with its name; empty if it need not."""
        self.next_at = patience.interval * (now // patience.interval + 1)  # one wake-up for all programs
        suspended = is_suspended(self.pid)
        if answer is LivenessAnswer.SHUTTING_DOWN:
            return "is shutting down by itself"
        if answer is LivenessAnswer.YES and not suspended:
            self.has_answered, self.silent_since = True, None
        elif self.has_answered or suspended:
            self.silent_since = now if self.silent_since is None else self.silent_since
            if now - self.silent_since >= patience.silence:
                return f"has not answered for {now - self.silent_since:.0f} s"
        return ""


def is_suspended(pid: int) -> bool:
    """Return True if the process is stopped by a signal; False without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "T"
