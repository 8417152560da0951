"""Comparison of runs: differing settings, results, and trajectories of the same prompt.

Read-only; the number of queries does not depend on the number of runs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max

from trainer.config.dotted import leaves
from trainer.config.removed import without_removed
from trainer.config.run import RunConfig
from webapp.explorer.run_groups import group_key
from webapp.runs import curves, summaries
from webapp.runs.launch import fields
from webapp.runs.models import Evaluation, Run
from webapp.runs.run_colours import assign_colours
from webapp.trajectories.models import Group, Trajectory, Turn
from webapp.trajectories.serialize import player_data

MAX_RUNS = 10
MAX_RECORDED = 300
"""Maximum number of differing settings shown if some runs are of other trainers."""
MAX_SETTING_NAME = 200
LETTERS = "ABCDEFGHIJ"
DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 2), (9, 3, 2, 3))
"""Dash patterns of the runs' curves, in turn; runs with the same pattern differ in colour and letter."""
CLOCK = "reward/mean"
"""A metric logged in every training iteration: its last point contains the run's tokens and seconds."""


# -- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One of the compared runs, with its letter, colour, line style and latest results."""

    run: Run
    at: int
    number: int
    """Number of its colour, from 1."""
    result: Evaluation | None
    reward: curves.Summary | None

    @property
    def letter(self) -> str:
        return LETTERS[self.at]

    @property
    def dash(self) -> tuple[int, ...]:
        return DASHES[self.at % len(DASHES)]

    @property
    def dash_text(self) -> str:
        """Value of the SVG attribute stroke-dasharray."""
        return " ".join(map(str, self.dash))

    @property
    def algorithm(self) -> str:
        return summaries.algorithm_text(self.run.config)

    @property
    def tokens(self) -> float | None:
        tokens: float | None = self.run.summary.get("tokens", self.reward.tokens if self.reward else None)
        return tokens or None if self.run.recorded is not None else tokens  # another trainer may not state them

    @property
    def seconds(self) -> float | None:
        seconds: float | None = self.run.summary.get("seconds", self.reward.seconds if self.reward else None)
        return seconds

    @property
    def source(self) -> dict[str, Any]:
        """Source description for the script that draws the curves."""
        return {
            "slug": self.run.slug,
            "label": f"{self.letter} {self.run.title}",
            "color": f"--run-{self.number}",
            "dash": list(self.dash),
            "shown": True,
            "letter": self.letter,
            "seeds": group_key(self.run),
        }


def sides(runs: Sequence[Run]) -> list[Side]:
    """Return the runs with their latest result, preferably in their own suite, and their last reward. Two queries."""
    results: dict[int, Evaluation] = {}
    environments = {run.pk: run.environment for run in runs}
    newest = Evaluation.objects.filter(run__in=runs).order_by("run_id", "suite", "-iteration")
    for result in newest.distinct("run_id", "suite"):
        if result.run_id not in results or result.suite == environments[result.run_id]:
            results[result.run_id] = result
    clocks = curves.summaries([run.pk for run in runs], [CLOCK])
    colours = assign_colours([run.pk for run in runs])
    return [Side(run, at, colours[at], results.get(run.pk), clocks.get((run.pk, CLOCK))) for at, run in enumerate(runs)]


def task_noun(runs: Sequence[Run]) -> str:
    """Return the name of an initial state: the noun that all runs use, or else "task"."""
    nouns = {run.task_noun for run in runs}
    return nouns.pop() if len(nouns) == 1 else "task"


def unequal_text(sides: Sequence[Side]) -> str:
    """Return a warning if some results are from before training and others from after it; otherwise empty.

    Iteration 0 of another trainer's run, such as an imported evaluation, does not imply that training follows.
    """
    ours = [side for side in sides if side.run.recorded is None]
    trained = {side.letter: bool(side.result.iteration) for side in ours if side.result}
    untrained = [letter for letter, after in trained.items() if not after]
    if not untrained or len(untrained) == len(trained):
        return ""
    verb = "was" if len(untrained) == 1 else "were"
    return f"{' and '.join(untrained)} {verb} evaluated only before training: the results are not comparable yet."


def averaged(sides: Sequence[Side]) -> bool:
    """Return True if some runs differ only in their seed, so that their curves can be averaged."""
    return len({group_key(side.run) for side in sides}) < len(sides)


# -- differing settings -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A setting that differs between runs; `values` in the order of the runs."""

    name: str
    label: str
    help: str
    unit: str
    values: list[str]

    @property
    def common(self) -> str:
        """The value of more than half of the runs, or ""; the others are highlighted."""
        most = max(set(self.values), key=self.values.count)
        return most if self.values.count(most) * 2 > len(self.values) else ""


@dataclass(frozen=True)
class DifferenceGroup:
    title: str
    differences: list[Difference]


def differences(runs: Sequence[Run]) -> list[DifferenceGroup]:
    """Return the settings that differ between the runs, in the order and with the labels of the launch form.

    Excludes the run's name, which is the column heading.
    """
    if len(runs) < 2:
        return []
    if any(run.recorded is not None for run in runs):
        return _recorded_differences(runs)
    base = RunConfig()
    forms_of = [fields.groups(without_removed(run.config), base) for run in runs]
    result = []
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
            result.append(DifferenceGroup(same_group[0].title, different))
    return result


def _recorded_differences(runs: Sequence[Run]) -> list[DifferenceGroup]:
    """Return differing settings by dotted name, if some runs are another trainer's.

    Settings with names longer than MAX_SETTING_NAME are left out: nested settings repeat the names of their sections.
    """
    settings = [
        {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in leaves(run.config if run.recorded is None else run.recorded)
            if len(name) <= MAX_SETTING_NAME
        }
        for run in runs
    ]
    names = dict.fromkeys(name for run_settings in settings for name in run_settings)
    different = [
        Difference(name, name, "", "", [run_settings.get(name, "") for run_settings in settings])
        for name in names
        if name != "name" and len({run_settings.get(name, "") for run_settings in settings}) > 1
    ]
    return [DifferenceGroup("Settings", different[:MAX_RECORDED])] if different else []


def _text(setting: fields.Setting) -> str:
    return "off" if setting.kind == "switch" and not setting.value else setting.value


def _environment_differences(runs: Sequence[Run]) -> list[Difference]:
    """Return differing settings of the environments, since the form lists the settings of one environment at a time."""
    configured = [run.config.get("environment", {}).get("settings", {}) for run in runs]
    settings: dict[str, fields.Setting] = {}
    texts: list[dict[str, str]] = []
    for run, values in zip(runs, configured, strict=True):
        run_settings = fields.environment_settings(run.environment, values, {})
        settings |= {setting.name: setting for setting in run_settings}
        texts.append({setting.name: _text(setting) for setting in run_settings})
    return [
        Difference(name, setting.label, setting.help, setting.unit, [text.get(name, "") for text in texts])
        for name, setting in settings.items()
        if len({text.get(name, "") for text in texts}) > 1
    ]


# -- the same prompt --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Play:
    """A run's trajectory of the prompt; None if it has none."""

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
    """Return the suites in which at least one of the runs was evaluated, most shared first. One query."""
    pairs = Evaluation.objects.filter(run__in=runs).order_by().values_list("suite", "run_id").distinct()
    shared: dict[str, int] = defaultdict(int)
    for suite, _ in pairs:
        shared[suite] += 1
    return sorted(shared, key=lambda suite: (-shared[suite], suite))


def prompt(sides: Sequence[Side], suite: str, number: int) -> Prompt | None:
    """Return trajectories of a suite's prompt in each run's latest evaluation; None if no run was evaluated in it.

    The first run with the prompt defines its initial state: trajectories of other runs are included only if they began
    from the same seed in the same environment. Five queries.
    """
    runs = [side.run for side in sides]
    evaluated = Group.objects.filter(run__in=runs, split="eval", suite=suite, superseded=False)
    done = Evaluation.objects.filter(run__in=runs, suite=suite)
    newest = dict(done.order_by().values_list("run_id").annotate(Max("iteration")))
    last = evaluated.aggregate(last=Max("number"))["last"]
    if not newest or last is None:
        return None
    number = min(number, last)
    groups = {
        group.run_id: group
        for group in evaluated.filter(number=number, iteration__in=set(newest.values())).order_by("pk")
        if group.iteration == newest.get(group.run_id)
    }
    first = next((groups[run.pk] for run in runs if run.pk in groups), None)
    if first is None:
        return Prompt(suite, number, last + 1, 0, [Play(side, None, None) for side in sides])
    same = [group for group in groups.values() if (group.seed, group.environment) == (first.seed, first.environment)]
    trajectories = Trajectory.objects.filter(group__in=same, member=0).select_related("group", "run")
    members = {trajectory.run_id: trajectory for trajectory in trajectories}
    turns: dict[int, list[Any]] = defaultdict(list)
    for owner, event in (
        Turn.objects.filter(trajectory__in=list(members.values())).order_by("number").values_list("trajectory", "event")
    ):
        turns[owner].append(event)
    plays = []
    for side in sides:
        member = members.get(side.run.pk)
        plays.append(Play(side, member, None if member is None else player_data(member, turns[member.pk])))
    return Prompt(suite, number, last + 1, first.seed, plays)
