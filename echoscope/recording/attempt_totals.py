"""What the recorded attempts of iterations and evaluations amount to, from the events of their journal."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from echoscope.recording.reward_metrics import mean, reward_metrics

COMPUTED = ("success/rate", "reward/mean", "reward/in_group_std")
MAX_ITERATIONS = 64
"""Iterations whose attempts are held in memory. Older ones are final."""


@dataclass(frozen=True)
class _Group:
    """Where an attempt belongs that has not ended."""

    iteration: int
    number: int
    split: str
    suite: str


@dataclass
class _Iteration:
    """Attempts of an iteration that have ended.

    Attributes:
        rewards: of each group, by its number; those of attempts without a reward are left out.
        given: names of COMPUTED that the trainer logged itself.
        computed: values that were written for it.
        changed: an attempt has ended since the values were computed.
    """

    rewards: list[tuple[str, float]] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    computed: dict[str, float] = field(default_factory=dict)
    changed: bool = False


@dataclass
class _Evaluation:
    """Rewards, turns and executed actions of the attempts of an evaluation; those without a reward are left out."""

    rewards: list[float] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)


class EvaluationMeans(NamedTuple):
    """Means over the attempts of an evaluation; None: not known."""

    reward: float | None = None
    turns: float | None = None
    actions: float | None = None


class AttemptTotals:
    """Reads the events of a journal in order.

    Attributes:
        newest: iteration of the training group that began last in this attempt at the run; None before the first.
    """

    def __init__(self) -> None:
        self.newest: int | None = None
        self._open: dict[str, _Group] = {}
        self._iterations: dict[int, _Iteration] = {}
        self._evaluations: dict[tuple[int, str], _Evaluation] = {}
        self._final = -1
        """Highest iteration that is not held any more."""

    def note(self, event: Mapping[str, Any]) -> None:
        """Take an event into account."""
        match event["type"]:
            case "run_started":
                self._continue_after(event["from_iteration"])
            case "group_started":
                group = _Group(event["iteration"], event["group"], event["split"], event.get("suite") or "")
                self._open |= dict.fromkeys(event["members"], group)
                if group.split == "train":
                    self.newest = group.iteration
            case "trajectory_finished":
                self._end(event)
            case "metrics":
                self._logged(event["iteration"], event["values"])

    def fill_in(self, iteration: int, given: Container[str]) -> dict[str, float]:
        """Values of COMPUTED that are new and neither among those `given` nor logged before; empty without attempts."""
        entry = self._iterations.get(iteration)
        if entry is None or not entry.changed:
            return {}
        entry.changed = False
        values = reward_metrics(entry.rewards)
        if entry.successes:
            values["success/rate"] = sum(entry.successes) / len(entry.successes)
        new = {
            name: value
            for name, value in values.items()
            if name not in given and name not in entry.given and entry.computed.get(name) != value
        }
        entry.computed |= new
        return new

    def changed(self, before: float = float("inf")) -> list[int]:
        """Iterations below `before` in which attempts have ended since fill_in(), ascending."""
        return sorted(number for number, entry in self._iterations.items() if entry.changed and number < before)

    def evaluation_means(self, suite: str, iteration: int) -> EvaluationMeans:
        """Means over the attempts of an evaluation; those of groups without a suite count where none name it."""
        found = self._evaluations.get((iteration, suite)) or self._evaluations.get((iteration, ""))
        if found is None:
            return EvaluationMeans()
        return EvaluationMeans(
            mean(found.rewards),
            mean(found.turns),
            mean(found.actions) if any(found.actions) else None,
        )

    def _continue_after(self, iteration: int) -> None:
        """A new attempt at the run begins: what came after the iteration is superseded."""
        self.newest = None
        self._open.clear()
        self._iterations = {number: entry for number, entry in self._iterations.items() if number <= iteration}
        self._evaluations = {place: entry for place, entry in self._evaluations.items() if place[0] <= iteration}
        self._final = min(self._final, iteration)

    def _end(self, event: Mapping[str, Any]) -> None:
        group = self._open.pop(event["trajectory"], None)
        if group is None or event["end"] == "interrupted":
            return
        if group.split == "eval":
            evaluation = self._evaluations.setdefault((group.iteration, group.suite), _Evaluation())
            if event.get("total_reward") is not None:
                evaluation.rewards.append(event["total_reward"])
            evaluation.turns.append(event["turns"])
            evaluation.actions.append(event["actions"])
        elif (entry := self._held(group.iteration)) is not None:
            if event.get("total_reward") is not None:
                entry.rewards.append((str(group.number), event["total_reward"]))
            if event.get("success") is not None:
                entry.successes.append(event["success"])
            entry.changed = True

    def _logged(self, iteration: int, values: Mapping[str, float]) -> None:
        names = [name for name in COMPUTED if name in values]
        if names and (entry := self._held(iteration)) is not None:
            entry.given |= {name for name in names if entry.computed.get(name) != values[name]}

    def _held(self, iteration: int) -> _Iteration | None:
        """The iteration; the oldest one makes room for a new one. None: it is final."""
        if iteration <= self._final:
            return None
        entry = self._iterations.setdefault(iteration, _Iteration())
        if len(self._iterations) > MAX_ITERATIONS:
            settled = [number for number, other in self._iterations.items() if not other.changed]
            self._final = min(settled or self._iterations)
            del self._iterations[self._final]
        return entry
