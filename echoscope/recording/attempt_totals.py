"""Totals over the recorded attempts of iterations and evaluations, from the events of their journal."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from echoscope.recording.reward_metrics import mean, reward_metrics

_OF_TOKENS = {"mismatch/mean": "mismatch", "mismatch/k3": "k3"}
"""Metrics that are means over tokens, and the field of an attempt's event with its mean."""
COMPUTED = ("success/rate", "reward/mean", "reward/in_group_std", *_OF_TOKENS, "mismatch/wrong_tokens")
MAX_ITERATIONS = 64
"""Iterations with attempts in memory. Older iterations are final."""


@dataclass(frozen=True)
class _Group:
    """Position of an attempt that has not ended."""

    iteration: int
    number: int
    split: str
    suite: str


@dataclass
class _Iteration:
    """Attempts of an iteration that have ended.

    Attributes:
        rewards: rewards of each group, by its number, without attempts that have none.
        tokens: events of attempts whose tokens were sent.
        given: names of COMPUTED that the trainer logged itself.
        computed: values that were written for the iteration.
        changed: an attempt has ended since the values were computed.
    """

    rewards: list[tuple[str, float]] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)
    tokens: list[Mapping[str, Any]] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    computed: dict[str, float] = field(default_factory=dict)
    changed: bool = False

    def token_metrics(self) -> dict[str, float]:
        """Return means over the tokens that were sent, and the share of attempts whose tokens are wrong."""
        values = {}
        for name, field_of_event in _OF_TOKENS.items():
            known = [event for event in self.tokens if event.get(field_of_event) is not None]
            if known:
                weighted = sum(event[field_of_event] * event["tokens"] for event in known)
                values[name] = weighted / sum(event["tokens"] for event in known)
        if self.tokens:
            values["mismatch/wrong_tokens"] = mean([float(bool(event.get("wrong"))) for event in self.tokens]) or 0.0
        return values


@dataclass
class _Evaluation:
    """Rewards, turns and executed actions of the attempts of an evaluation, without attempts that have no reward."""

    rewards: list[float] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)


class EvaluationMeans(NamedTuple):
    """Means over the attempts of an evaluation; None if unknown."""

    reward: float | None = None
    turns: float | None = None
    actions: float | None = None


class AttemptTotals:
    """Reads the events of a journal in order.

    Attributes:
        newest: iteration of the newest training group in this attempt at the run; None before the first.
    """

    def __init__(self) -> None:
        self.newest: int | None = None
        self._open: dict[str, _Group] = {}
        self._ended: dict[str, int] = {}  # iterations of training attempts, for their tokens
        self._iterations: dict[int, _Iteration] = {}
        self._evaluations: dict[tuple[int, str], _Evaluation] = {}
        self._final = -1
        """Highest iteration that is no longer in memory."""

    def note(self, event: Mapping[str, Any]) -> None:
        """Update the totals with an event."""
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
            case "trajectory_tokens":
                self._sent_tokens(event)
            case "metrics":
                self._logged(event["iteration"], event["values"])

    def fill_in(self, iteration: int, given: Container[str]) -> dict[str, float]:
        """Return values of COMPUTED that are new, not `given` and not logged before; empty without attempts."""
        entry = self._iterations.get(iteration)
        if entry is None or not entry.changed:
            return {}
        entry.changed = False
        values = reward_metrics(entry.rewards) | entry.token_metrics()
        if entry.successes:
            values["success/rate"] = sum(entry.successes) / len(entry.successes)
        new = {
            name: value
            for name, value in values.items()
            if name not in given and name not in entry.given and entry.computed.get(name) != value
        }
        entry.computed |= new
        return new

    def changed(self, limit: float = float("inf")) -> list[int]:
        """Return iterations below `limit` in which attempts have ended since fill_in(), ascending."""
        return sorted(number for number, entry in self._iterations.items() if entry.changed and number < limit)

    def evaluation_means(self, suite: str, iteration: int) -> EvaluationMeans:
        """Return means over the attempts of an evaluation, or of groups without a suite if none names it."""
        entry = self._evaluations.get((iteration, suite)) or self._evaluations.get((iteration, ""))
        if entry is None:
            return EvaluationMeans()
        return EvaluationMeans(
            mean(entry.rewards),
            mean(entry.turns),
            mean(entry.actions) if any(entry.actions) else None,
        )

    def _continue_after(self, iteration: int) -> None:
        """Begin a new attempt at the run: events after the iteration are superseded."""
        self.newest = None
        self._open.clear()
        self._ended.clear()
        self._iterations = {number: entry for number, entry in self._iterations.items() if number <= iteration}
        self._evaluations = {key: entry for key, entry in self._evaluations.items() if key[0] <= iteration}
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
            self._ended[event["trajectory"]] = group.iteration
            entry.changed = True

    def _sent_tokens(self, event: Mapping[str, Any]) -> None:
        iteration = self._ended.pop(event["trajectory"], None)
        if iteration is not None and (entry := self._held(iteration)) is not None:
            facts = ("tokens", *_OF_TOKENS.values(), "wrong")
            entry.tokens.append({name: event.get(name) for name in facts})  # without the packed arrays
            entry.changed = True

    def _logged(self, iteration: int, values: Mapping[str, float]) -> None:
        names = [name for name in COMPUTED if name in values]
        if names and (entry := self._held(iteration)) is not None:
            entry.given |= {name for name in names if entry.computed.get(name) != values[name]}

    def _held(self, iteration: int) -> _Iteration | None:
        """Return the iteration, replacing the oldest if it is new; None if it is final."""
        if iteration <= self._final:
            return None
        entry = self._iterations.setdefault(iteration, _Iteration())
        if len(self._iterations) > MAX_ITERATIONS:
            settled = [number for number, other in self._iterations.items() if not other.changed]
            self._final = min(settled or self._iterations)
            del self._iterations[self._final]
            self._ended = {name: number for name, number in self._ended.items() if number > self._final}
        return entry
