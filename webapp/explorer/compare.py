"""Several runs beside each other: which settings differ, how they ended, what each made of the same prompt.

Reads only, in a number of queries that does not grow with the runs. What is parsed and drawn is in compare_views.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max

from trainer.config.run import RunConfig
from webapp.runs import curves, summaries
from webapp.runs.launch import form
from webapp.runs.models import Evaluation, Run
from webapp.trajectories.models import Group, Trajectory, Turn
from webapp.trajectories.serialize import trajectory_data

MAX_RUNS = 8
LETTERS = "ABCDEFGH"
DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 2), (9, 3, 2, 3), (), (7, 3), (2, 2), (9, 3, 2, 3))
"""A line's pattern beside its colour; the letter in the legend tells the rest."""
CLOCK = "reward/mean"
"""Present in every iteration of training: its last point says how many tokens and seconds a run took."""


# -- how they ended ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One of the runs, with its letter, its line and where it stands."""

    run: Run
    at: int
    result: Evaluation | None
    reward: curves.Summary | None

    @property
    def letter(self) -> str:
        return LETTERS[self.at]

    @property
    def number(self) -> int:
        """For its colour, from 1."""
        return self.at + 1

    @property
    def dash(self) -> tuple[int, ...]:
        return DASHES[self.at]

    @property
    def dash_text(self) -> str:
        """As SVG writes it."""
        return " ".join(map(str, self.dash))

    @property
    def algorithm(self) -> str:
        return summaries.algorithm_words(self.run.config)

    @property
    def tokens(self) -> float | None:
        tokens: float | None = self.run.summary.get("tokens", self.reward.tokens if self.reward else None)
        return tokens

    @property
    def seconds(self) -> float | None:
        seconds: float | None = self.run.summary.get("seconds", self.reward.seconds if self.reward else None)
        return seconds

    @property
    def source(self) -> dict[str, Any]:
        """For the script that draws the curves."""
        return {
            "slug": self.run.slug,
            "label": f"{self.letter} {self.run.title}",
            "color": f"--run-{self.number}",
            "dash": list(self.dash),
            "shown": True,
        }


def sides(runs: Sequence[Run]) -> list[Side]:
    """The runs with their newest result in their own suite and their last reward. Two queries."""
    results: dict[int, Evaluation] = {}
    own = {run.pk: run.environment for run in runs}
    newest = Evaluation.objects.filter(run__in=runs).order_by("run_id", "suite", "-iteration")
    for result in newest.distinct("run_id", "suite"):
        if result.run_id not in results or result.suite == own[result.run_id]:
            results[result.run_id] = result
    clocks = curves.summaries([run.pk for run in runs], [CLOCK])
    return [Side(run, at, results.get(run.pk), clocks.get((run.pk, CLOCK))) for at, run in enumerate(runs)]


# -- which settings differ --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A setting that is not the same everywhere; `values` in the order of the runs."""

    name: str
    label: str
    help: str
    unit: str
    values: list[str]

    @property
    def common(self) -> str:
        """What most of them have, if there is such a value: the others stand out."""
        most = max(set(self.values), key=self.values.count)
        return most if self.values.count(most) * 2 > len(self.values) else ""


@dataclass(frozen=True)
class DifferenceGroup:
    title: str
    differences: list[Difference]


def differences(runs: Sequence[Run]) -> list[DifferenceGroup]:
    """Settings that are not the same in all runs, in the order and with the words of the launch form.

    Their names are none: they head the columns.
    """
    if len(runs) < 2:
        return []
    base = RunConfig()
    forms_of = [form.groups(run.config, base) for run in runs]
    found = []
    for same_group in zip(*forms_of, strict=True):
        different = [
            Difference(first.name, first.label, first.help, first.unit, [_text(setting) for setting in same])
            for same in zip(*(group.settings for group in same_group), strict=True)
            if len({setting.value for setting in same}) > 1
            for first in same[:1]
            if first.name != "name"
        ]
        if same_group[0].key == "environment":
            different += _environment_differences(runs)
        if different:
            found.append(DifferenceGroup(same_group[0].title, different))
    return found


def _text(setting: form.Setting) -> str:
    return "off" if setting.kind == "switch" and not setting.value else setting.value


def _environment_differences(runs: Sequence[Run]) -> list[Difference]:
    """The environments' own settings, which the form knows only one environment at a time."""
    given = [run.config.get("environment", {}).get("settings", {}) for run in runs]
    helps: dict[str, form.Setting] = {}
    texts: list[dict[str, str]] = []
    for run, values in zip(runs, given, strict=True):
        own = form.environment_settings(run.environment, values, {})
        helps |= {setting.name: setting for setting in own}
        texts.append({setting.name: _text(setting) for setting in own})
    return [
        Difference(name, one.label, one.help, one.unit, [text.get(name, "") for text in texts])
        for name, one in helps.items()
        if len({text.get(name, "") for text in texts}) > 1
    ]


# -- the same prompt --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Play:
    """What one run made of the prompt; None where it never played it."""

    side: Side
    trajectory: Trajectory | None
    data: dict[str, Any] | None


@dataclass(frozen=True)
class Prompt:
    """A prompt of a suite, played by every run in its newest evaluation."""

    suite: str
    number: int
    count: int
    seed: int
    plays: list[Play]


def suites(runs: Sequence[Run]) -> list[str]:
    """Suites that at least one of the runs was examined in; those that more of them share come first. One query."""
    pairs = Evaluation.objects.filter(run__in=runs).order_by().values_list("suite", "run_id").distinct()
    shared: dict[str, int] = defaultdict(int)
    for suite, _ in pairs:
        shared[suite] += 1
    return sorted(shared, key=lambda suite: (-shared[suite], suite))


def prompt(found: Sequence[Side], suite: str, number: int) -> Prompt | None:
    """What each run made of the prompt of that number; None where no run has played the suite.

    The initial state of the first run that has it counts: of the others only what began from the same seed in the same
    environment is shown. Five queries.
    """
    runs = [side.run for side in found]
    exam = Group.objects.filter(run__in=runs, split="eval", suite=suite, superseded=False)
    done = Evaluation.objects.filter(run__in=runs, suite=suite)
    newest = dict(done.order_by().values_list("run_id").annotate(Max("iteration")))
    last = exam.aggregate(last=Max("number"))["last"]
    if not newest or last is None:
        return None
    number = min(number, last)
    groups = {
        group.run_id: group
        for group in exam.filter(number=number, iteration__in=set(newest.values())).order_by("pk")
        if group.iteration == newest.get(group.run_id)
    }
    first = next((groups[run.pk] for run in runs if run.pk in groups), None)
    if first is None:
        return Prompt(suite, number, last + 1, 0, [Play(side, None, None) for side in found])
    same = [group for group in groups.values() if (group.seed, group.environment) == (first.seed, first.environment)]
    members = {one.run_id: one for one in Trajectory.objects.filter(group__in=same, member=0).select_related("group")}
    turns: dict[int, list[Any]] = defaultdict(list)
    for owner, event in (
        Turn.objects.filter(trajectory__in=list(members.values())).order_by("number").values_list("trajectory", "event")
    ):
        turns[owner].append(event)
    plays = []
    for side in found:
        member = members.get(side.run.pk)
        plays.append(Play(side, member, None if member is None else trajectory_data(member, turns[member.pk])))
    return Prompt(suite, number, last + 1, first.seed, plays)
