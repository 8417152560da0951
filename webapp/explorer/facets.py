"""Numbers of matching trajectories for each choice of a filter, and the distribution of their rewards.

One statement reads each trajectory once: it counts the combinations of choices, and sums them for every facet. The
number of a choice applies all other filters but not the one it would change, so that users can switch between choices.
The totals are sums of the same combinations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Case, CharField, F, Max, Min, Q, Value, When

from envs.claims.kinds import CLAIM_KINDS
from trainer.metrics.training_use import TRAINING_USES
from webapp.explorer.counts import LIMIT, LIMIT_OF_TEXT, WITH_REWARD, ResultCounts
from webapp.explorer.filter_values import CLAIMS, MARKS
from webapp.explorer.trajectory_filters import CLAIM_CONDITIONS, Filters, filter_trajectories, known_reward
from webapp.runs.models import Run
from webapp.trajectories.end_reasons import END_REASONS, SOLVED, suggested
from webapp.trajectories.models import Trajectory

MAX_CHOICES = 7
"""Maximum number of choices of a facet, the largest ones; turns are shown in their order."""
MAX_BARS = 32
"""Maximum number of bars in the distribution of rewards."""
SPLITS = {"train": "Training", "eval": "Evaluation"}
KINDS, USE = "false_claim_kinds", "training_use"
_WITHOUT_FACETS: dict[str, Any] = dict.fromkeys(
    ("reason", "break_turn", "mark", "claims", KINDS, USE, "split", "environment", "reward_min", "reward_max")
)


@dataclass(frozen=True)
class Choice:
    """A choice of a filter, the number of trajectories that it leaves, and its query string."""

    label: str
    number: int
    query: str
    chosen: bool
    length: float = 0.0
    """Length of its bar, 0 to 100, relative to the facet's largest number."""
    solved: bool = False
    """True for the end reason that is a success."""


@dataclass(frozen=True)
class Facet:
    """The choices of one filter."""

    name: str
    title: str
    choices: Sequence[Choice]


@dataclass(frozen=True)
class Bar:
    """A bar of the distribution: position and height in percent, and whether it is in the chosen range."""

    left: float
    width: float
    height: float
    inside: bool
    label: str

    @property
    def top(self) -> float:
        return 100 - self.height


@dataclass(frozen=True)
class Rewards:
    """Distribution of the total reward, and the chosen range as numbers of steps from `start`."""

    start: float
    step: float
    steps: int
    low: int
    high: int
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Survey:
    """Matching trajectories by choices. Empty if there are more trajectories than are counted."""

    facets: Sequence[Facet] = ()
    rewards: Rewards | None = None
    suggestions: Sequence[Choice] = ()
    """End reasons that resemble words of the search."""
    totals: ResultCounts | None = None
    """Counts of the matching trajectories."""


@dataclass(frozen=True)
class _Sums:
    """Numbers of trajectories by value of a facet, under all filters but its own; and the counts of all matches."""

    by_value: Mapping[str, Sequence[tuple[Any, int]]]
    totals: ResultCounts

    def numbers(self, name: str) -> Counter[Any]:
        """Return the number of each value; for kinds of claims, whose values are lists, of each kind."""
        numbers: Counter[Any] = Counter()
        for value, number in self.by_value.get(name, ()):
            for item in value if name == KINDS else [value]:
                if item not in ("", None):
                    numbers[item] += number
        return numbers


def survey(run: Run, filters: Filters, *, several_environments: bool = False) -> Survey:
    """Return the facets of the matching trajectories, with two queries and the queries of suggestions, all limited."""
    low, step = _scale(run)
    sums = _sums(run, filters, low, step, several_environments or filters.environment is not None)
    if sums is None:
        return Survey(suggestions=_suggestions(run, filters))
    facets = [
        _facet("reason", "How it ended", sums, filters, END_REASONS),
        _facet("break_turn", "Lost at", sums, filters, None),
        _facet("mark", "Worst mark", sums, filters, MARKS),
        _facet("claims", "Claims in thoughts", sums, filters, CLAIMS),
        _facet(KINDS, "False claims about", sums, filters, CLAIM_KINDS),
        _facet(USE, "Trained on", sums, filters, {use: words.label for use, words in TRAINING_USES.items()}),
        _facet("split", "Split", sums, filters, SPLITS),
        _facet("environment", "Environment", sums, filters, {}),
    ]
    return Survey(
        facets=[facet for facet in facets if len(facet.choices) > 1 or any(choice.chosen for choice in facet.choices)],
        rewards=_rewards(sums, filters, low, step),
        suggestions=_suggestions(run, filters),
        totals=sums.totals,
    )


_ACCEPTS = {
    "reason": "reason = %s",
    "break_turn": "break_turn = %s",
    "mark": "mark = %s",
    "claims": "claims = %s",
    KINDS: "false_claim_kinds && %s::varchar[]",
    USE: "training_use = %s",
    "split": "split = %s",
    "environment": "environment = %s",
    "reward": "inside",
}
"""Facet → condition under which its filter accepts a combination."""
_SETS = (*((name,) for name in _ACCEPTS if name != "reward"), ("status", "bucket"), ("status",), ())
"""Columns by which the combinations are summed: for each facet, for rewards, for outcomes, and none."""
_BITS = ("status", "bucket", *(name for name in _ACCEPTS if name != "reward"))
_MARK_NAMES = " ".join(
    f"WHEN {Trajectory.WorstMark[name.upper()].value} THEN '{name}'" for name in MARKS if name != "unjudged"
)
_ENDED = ", ".join(f"'{status.value}'" for status in Trajectory.ENDED)
_COMBINATIONS = f"""
WITH combinations AS (
    SELECT bucket, status, reason, lost_turn + 1 AS break_turn, claims, false_claim_kinds, training_use, split,
        environment, inside,
        CASE worst_mark {_MARK_NAMES} ELSE CASE WHEN status IN ({_ENDED}) THEN 'unjudged' ELSE '' END END AS mark,
        count(*) AS number, sum(reward) AS reward, count(reward) AS rewarded
    FROM (
        SELECT *, floor((reward - %s) / %s)::int AS bucket, {{inside}} AS inside
        FROM ({{matching}}) AS matching
            (status, reason, lost_turn, worst_mark, claims, false_claim_kinds, training_use, split, environment, reward)
    ) AS matching
    GROUP BY bucket, status, reason, lost_turn, worst_mark, claims, false_claim_kinds, training_use, split, environment,
        inside
)
SELECT grouping({", ".join(_BITS)}), {", ".join(_BITS)}, coalesce(sum(number), 0)::bigint, {{sums}}
FROM combinations
GROUP BY GROUPING SETS ({", ".join(f"({', '.join(columns)})" for columns in _SETS)})
"""  # noqa: S608 - made of the names above


def _accepted(filters: Filters) -> dict[str, tuple[str, list[Any]]]:
    """Return the conditions under which the filters of active facets accept a combination, with their parameters."""
    active: dict[str, tuple[str, list[Any]]] = {}
    for name, condition in _ACCEPTS.items():
        value = None if name == "reward" else getattr(filters, name)
        if value is not None:
            active[name] = condition, [list(value) if isinstance(value, tuple) else value]
    if filters.reward_min is not None or filters.reward_max is not None:
        active["reward"] = _ACCEPTS["reward"], []
    return active


def _sums(run: Run, filters: Filters, low: float, step: float, by_environment: bool) -> _Sums | None:
    """Return the sums of the matching trajectories; None if there are more than are counted.

    Without `by_environment` the table of groups, which contains the environment, is not read.
    """
    limit = LIMIT_OF_TEXT if filters.reads_turns else LIMIT
    matching = filter_trajectories(run, replace(filters, **_WITHOUT_FACETS)).annotate(
        of_claims=_case(CLAIM_CONDITIONS),
        of_environment=F("group__environment") if by_environment else Value(""),
        known_reward=known_reward(),
    )
    columns = ("status", "end_reason", "lost_turn", "worst_mark", "of_claims", KINDS, USE, "split", "of_environment")
    try:
        sql, params = matching.values_list(*columns, "known_reward")[: limit + 1].query.sql_with_params()
    except EmptyResultSet:  # the filters contradict each other
        return _Sums({}, ResultCounts(0, 0, 0, 0.0, 0))
    accepted = _accepted(filters)
    sums: list[str] = []
    values: list[Any] = []
    shown = [("number", ""), ("reward", ""), ("rewarded", "")]
    for column, left_out in [*shown, *(("number", name) for name in accepted)]:
        conditions = [condition for name, condition in accepted.items() if name != left_out]
        where = " AND ".join(text for text, _ in conditions) or "true"
        sums.append(f"coalesce(sum({column}) FILTER (WHERE {where}), 0){'' if column == 'reward' else '::bigint'}")
        values += [value for _, parameters in conditions for value in parameters]
    bounds: list[float] = []
    if "reward" in accepted:
        bounds = [-math.inf if filters.reward_min is None else filters.reward_min]
        bounds += [math.inf if filters.reward_max is None else filters.reward_max]
    inside = "reward BETWEEN %s AND %s" if bounds else "true"
    with connection.cursor() as cursor:
        statement = _COMBINATIONS.format(matching=sql, inside=inside, sums=", ".join(sums))
        cursor.execute(statement, [low, step, *bounds, *params, *values])
        return _read(cursor.fetchall(), list(accepted), limit)


def _case(conditions: Mapping[str, Q]) -> Case:
    """Return an expression for the name of the condition that a trajectory meets, or ""."""
    cases = [When(condition, then=Value(name)) for name, condition in conditions.items()]
    return Case(*cases, default=Value(""), output_field=CharField())


def _read(rows: Sequence[tuple[Any, ...]], active: Sequence[str], limit: int) -> _Sums | None:
    """Read rows of _COMBINATIONS: a bit for each column that is not in the set, the columns, and the sums."""
    by_value: dict[str, list[tuple[Any, int]]] = {}
    tallies: list[tuple[str, int, float, int]] = []
    for mask, *rest in rows:
        values = dict(zip(_BITS, rest, strict=False))
        every, total, reward, rewarded, *others = rest[len(_BITS) :]
        columns = tuple(name for bit, name in enumerate(reversed(_BITS)) if not mask >> bit & 1)
        if not columns:
            if every > limit:
                return None
        elif columns == ("status",):
            tallies.append((values["status"], total, reward, rewarded))
        else:
            name = "reward" if "bucket" in columns else columns[0]
            value = (values["status"], values["bucket"]) if name == "reward" else values[name]
            number = others[active.index(name)] if name in active else total
            by_value.setdefault(name, []).append((value, number))
    return _Sums(by_value, _totals(tallies))


def _totals(tallies: Iterable[tuple[str, int, float, int]]) -> ResultCounts:
    """Return totals from the status, number, sum of rewards and number of rewards of each status."""
    counted = [tally for tally in tallies if tally[1]]
    ended = [tally for tally in counted if tally[0] in Trajectory.COUNTED]
    rewarded = [tally for tally in counted if tally[0] in WITH_REWARD]
    return ResultCounts(
        found=sum(number for _, number, *_ in counted),
        ended=sum(number for _, number, *_ in ended),
        success=sum(number for status, number, *_ in ended if status == Trajectory.Status.SUCCESS),
        reward=sum((reward for _, _, reward, _ in rewarded), 0.0),
        rewarded=sum(number for *_, number in rewarded),
    )


def _facet(name: str, title: str, sums: _Sums, filters: Filters, labels: Mapping[str, str] | None) -> Facet:
    """Build a facet from the sums under the other filters. `labels`: None for turns; empty: values are labels."""
    numbers = sums.numbers(name)
    value = getattr(filters, name)
    chosen = () if value is None else value if name == KINDS else (value,)
    for choice in chosen:
        numbers.setdefault(choice, 0)
    shown = [choice for choice, number in numbers.most_common() if number or choice in chosen][:MAX_CHOICES]
    shown += [choice for choice in chosen if choice not in shown]
    if labels is None:
        shown.sort()
    elif name in _IN_ORDER:
        silent = _IN_ORDER[name]
        shown = (
            [choice for choice in labels if choice in shown]
            if any(numbers[choice] for choice in labels if choice != silent)
            else []
        )
    largest = max((numbers[choice] for choice in shown), default=0) or 1
    choices = [
        Choice(
            label=f"turn {choice}" if labels is None else labels.get(choice, choice),
            number=numbers[choice],
            query=filters.query(**{name: _toggled(name, chosen, choice)}),
            chosen=choice in chosen,
            length=round(100 * numbers[choice] / largest, 1),
            solved=name == "reason" and choice == SOLVED,
        )
        for choice in shown
    ]
    return Facet(name, title, choices)


_IN_ORDER = {"claims": "none", "mark": "unjudged", USE: ""}
"""Facets in the order of their labels, with the choice that is not informative by itself."""


def _toggled(name: str, chosen: Sequence[Any], value: Any) -> Any:
    """Return the filter after a click on a choice. Several kinds of claims can be chosen."""
    if name != KINDS:
        return None if value in chosen else value
    return tuple(kind for kind in CLAIM_KINDS if (kind in chosen) != (kind == value)) or None


def _suggestions(run: Run, filters: Filters) -> list[Choice]:
    """Return end reasons named in the search text, such as “corner”, with their numbers without the text."""
    if filters.text is None:
        return []
    plain = replace(filters, text=None, reason=None, outcome=None, success=None)
    result = []
    for code in suggested(filters.text):
        narrowed = replace(plain, reason=code)
        if number := filter_trajectories(run, narrowed)[: LIMIT_OF_TEXT + 1].count():
            result.append(Choice(END_REASONS[code], number, narrowed.query(), chosen=False))
    return result


def _scale(run: Run) -> tuple[float, float]:
    """Return start and step of the run's distribution of rewards: a round step with at most MAX_BARS bars."""
    known = Trajectory.objects.filter(run=run, rewarded=True)
    ends = known.aggregate(low=Min("total_reward"), high=Max("total_reward"))
    low, high = ends["low"] or 0.0, ends["high"] or 0.0
    rough = (high - low) / (MAX_BARS - 2) or 1.0
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    return math.floor(low / step) * step, step


def _rewards(sums: _Sums, filters: Filters, start: float, step: float) -> Rewards | None:
    """Return the distribution of the recorded rewards of ended trajectories; None if all of them are equal."""
    numbers: Counter[int] = Counter()
    for (status, bucket), number in sums.by_value.get("reward", ()):
        if number and bucket is not None and status in Trajectory.ENDED:
            numbers[bucket] += number
    if len(numbers) < 2:
        return None
    first, last = min(numbers), max(numbers)
    steps = last - first + 1
    start += first * step
    low = 0 if filters.reward_min is None else _nearest((filters.reward_min - start) / step, steps)
    high = steps if filters.reward_max is None else _nearest((filters.reward_max - start) / step, steps)
    largest = max(numbers.values())
    bars = [
        Bar(
            left=round(100 * index / steps, 2),
            width=round(100 / steps, 2),
            height=round(max(2.0, 100 * number / largest), 1),
            inside=low <= index < max(high, low + 1),
            label=f"{_edge(start, step, index):g} to {_edge(start, step, index + 1):g}: {number:,}",
        )
        for bucket, number in sorted(numbers.items())
        for index in [bucket - first]
    ]
    return Rewards(_edge(start, step, 0), step, steps, low, high, bars)


def _nearest(value: float, steps: int) -> int:
    return max(0, min(steps, round(value)))


def _edge(start: float, step: float, index: int) -> float:
    """Return an edge between two bars without floating-point noise."""
    return float(f"{start + index * step:.10g}")
