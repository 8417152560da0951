"""Recorded Echo Trap: a run that collapses and its twin that learns, which a page plays without a worker.

The recording (trap_replay.json) contains every training attempt of two real runs. Attempts of such a policy repeat, so
it is a list of the different ones, and a character for each attempt of each iteration. `manage.py record_trap_replay`
writes it from the folders of two runs.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from trainer.metrics import registry
from trainer.metrics.charts import Band, Series, stream
from webapp.core import formatting
from webapp.runs.condition import LABELS
from webapp.runs.metric_charts import MetricChart

FILE = Path(__file__).with_name("trap_replay.json")
CODES = string.ascii_letters + string.digits + "!#$%()*+,-./:;=?@[]^_{|}~"
"""Characters that represent the different attempts of a run."""
METRICS = ("success/rate", "reward/in_group_std")
"""Curves of the page: the outcome, and the spread from which advantages are computed."""
MAX_ENDINGS, MIN_SHARE = 4, 0.01
"""Number of endings of thoughts with a colour, and their minimum share of all attempts."""


@dataclass(frozen=True)
class ReplayAlarm:
    """A change of the detector's state."""

    iteration: int
    state: str
    message: str

    @property
    def label(self) -> str:
        """The state as a label."""
        return LABELS.get(self.state, "Healthy")


@dataclass(frozen=True)
class ReplayedRun:
    """Every training attempt of a run, with its curves and alarms.

    Attributes:
        name: name of the algorithm.
        attempts: the different attempts: board before and after, thought, answer, reward and success.
        iterations: a string for each iteration with a code (CODES) for each attempt, group by group.
        kept: for each iteration a "1" for each group that the filter kept, else "0".
        curves: values of METRICS by iteration.
        evaluations: iteration and success on the evaluation puzzles.
    """

    name: str
    seed: int
    group_size: int
    attempts: Sequence[Mapping[str, Any]]
    iterations: Sequence[str]
    kept: Sequence[str]
    curves: Mapping[str, Sequence[float]]
    evaluations: Sequence[tuple[int, float]]
    alarms: Sequence[ReplayAlarm]

    @property
    def size(self) -> int:
        """Number of attempts of an iteration."""
        return len(self.iterations[0])

    @property
    def condition(self) -> ReplayAlarm | None:
        """The alarm at the end; None for a healthy run."""
        return next((alarm for alarm in self.alarms[-1:] if alarm.state in LABELS), None)

    @property
    def evaluated(self) -> str:
        """Success on the evaluation puzzles before and after, e.g. “44.1% → 0.4%”."""
        (_, first), *_, (_, last) = self.evaluations
        return f"{formatting.percent(first)} → {formatting.percent(last)}"

    def endings(self, iteration: int) -> Counter[str]:
        """Count the attempts of an iteration (from 1) by the last sentence of their thought."""
        codes = Counter(self.iterations[iteration - 1])
        counted: Counter[str] = Counter()
        for code, count in codes.items():
            counted[ending(self.attempts[CODES.index(code)]["thought"])] += count
        return counted


@dataclass(frozen=True)
class TrapReplay:
    """Both runs, first the one that collapses."""

    runs: Sequence[ReplayedRun]

    @property
    def length(self) -> int:
        """Number of iterations that are played."""
        return min(len(run.iterations) for run in self.runs)

    @cached_property
    def endings(self) -> list[str]:
        """The commonest last sentences of thoughts, first those at the end of the collapsed run."""
        last = self.runs[0].endings(self.length)
        every: Counter[str] = Counter()
        for run in self.runs:
            for iteration in range(1, self.length + 1):
                every += run.endings(iteration)
        common = [sentence for sentence, count in every.most_common(MAX_ENDINGS) if count >= MIN_SHARE * every.total()]
        return sorted(common, key=lambda sentence: (-last[sentence], -every[sentence]))

    @cached_property
    def echoes(self) -> list[Echo]:
        """The echo meter of each run."""
        return [Echo.of(run, self.endings, self.length) for run in self.runs]

    @cached_property
    def charts(self) -> list[MetricChart]:
        """A chart for each of METRICS with a line for each run."""
        return [self._chart(name) for name in METRICS]

    def _chart(self, name: str) -> MetricChart:
        spec = registry.get_spec(name)
        lines = [
            Series(run.name, list(enumerate(run.curves[name][: self.length], start=1)), number + 1)
            for number, run in enumerate(self.runs)
        ]
        return MetricChart(spec.title, spec, lines, [[spec.text(value) for _, value in line.points] for line in lines])

    @property
    def data(self) -> dict[str, Any]:
        """Data for the page's script."""
        return {
            "length": self.length,
            "endings": self.endings,
            "runs": [
                {
                    "name": run.name,
                    "groupSize": run.group_size,
                    "attempts": [{**attempt, "ending": ending(str(attempt["thought"]))} for attempt in run.attempts],
                    "codes": CODES,
                    "iterations": run.iterations[: self.length],
                    "kept": run.kept[: self.length],
                    "alarms": [asdict(alarm) | {"label": alarm.label} for alarm in run.alarms],
                }
                for run in self.runs
            ],
            "values": [[list(texts) for texts in chart.texts] for chart in self.charts],
        }


@dataclass(frozen=True)
class Echo:
    """Share of a run's attempts by the last sentence of their thoughts, through training."""

    bands: Sequence[Band]
    first: tuple[int, int]
    last: tuple[int, int]

    @classmethod
    def of(cls, run: ReplayedRun, endings: Sequence[str], length: int) -> Echo:
        counted = [run.endings(iteration) for iteration in range(1, length + 1)]
        bands = [Band(sentence, [counts[sentence] / run.size for counts in counted]) for sentence in endings]
        return cls(bands, (counted[0][endings[0]], run.size), (counted[-1][endings[0]], run.size))

    @property
    def picture(self) -> str:
        """Contents of the page's <svg>."""
        return stream(self.bands)

    @property
    def description(self) -> str:
        """Text alternative to the picture."""
        (first_count, size), (last_count, _) = self.first, self.last
        return (
            f"Attempts whose thought ends “{self.bands[0].label}”: {first_count} of {size} in the first iteration, "
            f"{last_count} of {size} in the last."
        )


def ending(thought: str) -> str:
    """Return the last sentence of a thought, e.g. “I take Phoenix.”: in a template, the policy's decision."""
    return re.split(r"(?<=[.!?])\s+", thought.strip())[-1]


@lru_cache(maxsize=1)
def trap_replay() -> TrapReplay:
    """Return the recording that ships with the site."""
    return from_json(FILE.read_text(encoding="utf-8"))


def from_json(text: str) -> TrapReplay:
    """Parse a recording."""
    runs = json.loads(text)["runs"]
    return TrapReplay(
        [
            ReplayedRun(
                **run
                | {
                    "alarms": [ReplayAlarm(**alarm) for alarm in run["alarms"]],
                    "evaluations": [(at, success) for at, success in run["evaluations"]],
                }
            )
            for run in runs
        ]
    )


def to_json(replay: TrapReplay) -> str:
    """Return the recording as text with a line for each list, so that changes are readable."""
    lines = ",\n".join(
        "{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in asdict(run).items()) + "}"
        for run in replay.runs
    )
    return f'{{"runs": [\n{lines}\n]}}\n'
