"""Comparison runner: contenders do the same work in turn; medians and ratios of the rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.lib.worker_protocol import Contender, ContenderError

OURS = "Echoscope"
MEBIBYTE = 2**20


@dataclass(frozen=True)
class ContenderSpec:
    """Interpreter, module and job of a contender."""

    python: Path
    module: str
    job: Mapping[str, Any]

    def start(self) -> Contender:
        return Contender(self.python, self.module, self.job)


@dataclass(frozen=True)
class Task:
    """One kind of work: its command and its number of tokens."""

    do: str
    tokens: int
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Comparison:
    """Runs every task of every contender once per round; the first round is not counted.

    With `fresh`, a contender's process lives only for its turn, for models that fit into memory only once; the first
    `warm` steps of each task in a process are then not counted.
    """

    entries: dict[str, ContenderSpec]
    asks: dict[str, Task]
    fresh: bool = False
    warm: int = 1
    missing: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    answers: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)

    def play(self, rounds: int, prepare: Callable[[Contender], object], progress: Callable[[str], None]) -> None:
        """Run all rounds; the first contender calls `prepare` once before the work starts."""
        alive: dict[str, Contender] = {}
        try:
            for number in range(rounds if self.fresh else rounds + 1):
                for name in list(self.entries):
                    try:
                        contender = alive.pop(name, None) or self._start(name)
                        alive[name] = contender
                        if number == 0 and name == next(iter(self.entries)):
                            prepare(contender)
                        self._ask(name, contender, counted=self.fresh or number > 0)
                    except ContenderError as error:
                        self._gone(name, str(error))
                        if name in alive:
                            alive.pop(name).close()
                        continue
                    if self.fresh:
                        alive.pop(name).close()
                progress(f"round {number + 1} of {rounds if self.fresh else rounds + 1}")
        finally:
            for contender in alive.values():
                contender.close()

    def _ask(self, name: str, contender: Contender, *, counted: bool) -> None:
        for work, ask in self.asks.items():
            for _ in range(self.warm * self.fresh):
                contender.ask(ask.do, **ask.arguments)
            answer = contender.ask(ask.do, **ask.arguments)
            if counted:
                self.answers.setdefault((work, name), []).append(answer)

    def _start(self, name: str) -> Contender:
        contender = self.entries[name].start()
        self.versions |= contender.ready["versions"]
        return contender

    def _gone(self, name: str, why: str) -> None:
        if name == next(iter(self.entries)):
            raise ContenderError(f"{name}: {why}")
        del self.entries[name]
        self.missing[name] = why
        for work in self.asks:
            self.answers.pop((work, name), None)

    def median(self, work: str, name: str, what: str) -> float:
        """Return the median of a figure over the counted rounds."""
        return statistics.median(answer[what] for answer in self.answers[work, name])

    def ratio(self, work: str, name: str, what: str = "seconds", base: str = OURS) -> float:
        """Return a peer's figure over ours, as the median of the ratios within a round."""
        return statistics.median(
            theirs[what] / ours[what]
            for ours, theirs in zip(self.answers[work, base], self.answers[work, name], strict=True)
        )

    def figures(self) -> list[dict[str, Any]]:
        """Return results for the JSON file: medians by task and contender, times of the rounds, ratios to ours."""
        rows = []
        for (work, name), answers in self.answers.items():
            line: dict[str, Any] = {"work": work, "name": name, "tokens": self.asks[work].tokens}
            line |= {what: self.median(work, name, what) for what in ("seconds", "rollout", "update", "cpu", "peak")}
            line |= {"ratio": self.ratio(work, name), "cpu_ratio": self.ratio(work, name, "cpu")}
            line |= {"rounds": [answer["seconds"] for answer in answers], "gradient_norm": answers[0]["norm"]}
            rows.append(line)
        return rows


def times(ratio: float) -> str:
    return f"{ratio:,.0f} ×" if ratio >= 20 else f"{ratio:.2f} ×"
