"""Result of an ended run: success before and after training, puzzle by puzzle, best checkpoint, cost.

`result` is a pure function of the data that `of_run` reads in a constant number of queries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from django.db.models import Avg, Count, Q

from trainer.metrics.success_difference import SuccessDifference, correlation, difference, paired_difference
from webapp.explorer.counts import WITH_REWARD
from webapp.explorer.learned_puzzles import LearnedPuzzle, learned_lately
from webapp.explorer.measured_rate import measured_rate
from webapp.runs.main_suite import main_suite
from webapp.runs.models import Evaluation, MetricPoint, Run
from webapp.trajectories.models import Group, Trajectory

ENDED = (Run.State.FINISHED, Run.State.STOPPED)
"""States with a result. A failed run shows its failure instead."""
MAX_PUZZLES = 1024
"""Maximum number of cells on the wall; the figures include all puzzles."""
TREND_ITERATIONS = 5
"""Number of iterations at either end of training that are averaged if there are no evaluations."""
SUCCESS, REWARD = "success/rate", "reward/mean"

PuzzleKey = tuple[int, str, int]
"""Number in the suite, environment and seed: puzzles with the same key have the same initial state."""


@dataclass(frozen=True)
class PuzzlePlay:
    """A puzzle in one evaluation: share of successful attempts, 0 to 1, and the slug of the first attempt."""

    solved: float
    slug: str


@dataclass(frozen=True)
class Puzzle:
    """A puzzle in the first and the last evaluation. With several attempts, half of them must succeed to solve it."""

    number: int
    before: PuzzlePlay
    after: PuzzlePlay

    @property
    def change(self) -> str:
        """Name of its section of the wall, one of CHANGES."""
        was, is_ = self.before.solved >= 0.5, self.after.solved >= 0.5
        return ("always" if was else "gained") if is_ else ("lost" if was else "never")


CHANGES = {"gained": "Newly solved", "lost": "Newly lost", "always": "Always solved", "never": "Never solved"}
"""Sections of the wall, in order."""


@dataclass(frozen=True)
class WallSection:
    """Puzzles with the same change; `count` includes those without a cell, `start` counts earlier sections."""

    change: str
    start: int
    count: int
    puzzles: list[Puzzle]

    @property
    def title(self) -> str:
        return CHANGES[self.change]


@dataclass(frozen=True)
class Gain:
    """Change between the first and the last evaluation of a suite. `paired`: both played the same puzzles."""

    first: Evaluation
    last: Evaluation
    before: float
    after: float
    difference: SuccessDifference
    paired: bool

    @property
    def source(self) -> str:
        """Cause of the change, if the run starts with demonstrations: imitation or reinforcement."""
        return "imitation" if self.last.iteration <= 0 else "reinforcement"


@dataclass(frozen=True)
class Trend:
    """Means of a metric over the first and the last iterations of training."""

    before: float
    after: float
    iterations: int
    """Number of iterations at either end."""


@dataclass(frozen=True)
class AttemptsResult:
    """Known results of a run's training attempts.

    Attributes:
        number: number of all attempts.
        counted, success: number of attempts with known success, and the share of solved ones.
        rewarded, reward: number of attempts with known reward, and its mean.
    """

    number: int
    counted: int
    success: float | None
    rewarded: int
    reward: float | None

    @property
    def complete(self) -> bool:
        """True if success or reward, if known for some attempts, is known for all of them."""
        return {self.counted, self.rewarded} <= {0, self.number}


@dataclass(frozen=True)
class RunResult:
    """Contents of the result card. Without an evaluation `last` is None; with only one, `gain` is None."""

    suite: str
    last: Evaluation | None
    gain: Gain | None
    parts: list[Gain]
    """The gains before and after iteration 0, in a run that was evaluated before its warm-up on demonstrations."""
    best: Evaluation | None
    """The evaluation with the highest success in the suite; the earliest of several."""
    wall: list[WallSection]
    checkpoint: int | None
    """Iteration of the stored checkpoint with the highest evaluated success, else of the newest one; None: none."""
    checkpoint_success: float | None
    """Success in the evaluation that represents it, in iteration `checkpoint_evaluated`."""
    checkpoint_evaluated: int | None
    success_trend: Trend | None
    reward_trend: Trend | None
    iterations: int
    """Number of training iterations with recorded success or reward, in runs without an evaluation."""
    attempts: AttemptsResult | None
    """For runs of other trainers with neither an evaluation nor a trend."""
    seconds: float | None
    tokens: float | None
    trajectories: int
    """Number of attempts in training, including those thinned out since."""
    learned: Sequence[LearnedPuzzle] = ()
    """Most recently learned evaluation puzzles."""

    @property
    def trend(self) -> Trend | None:
        """The trend that the card shows first: of success, or else of the reward."""
        return self.success_trend or self.reward_trend

    @property
    def puzzles(self) -> int:
        """Number of puzzles on the wall, including those without a cell."""
        return sum(section.count for section in self.wall)

    @property
    def left_out(self) -> int:
        """Number of puzzles without a cell on the wall."""
        return max(0, self.puzzles - MAX_PUZZLES)


def gain(
    first: Evaluation, last: Evaluation, before: Mapping[PuzzleKey, PuzzlePlay], after: Mapping[PuzzleKey, PuzzlePlay]
) -> Gain:
    """Return the gain between two evaluations of a suite: paired if both played all the same puzzles.

    Puzzles played once give the exact pairs; with several samples, the intervals of the evaluations are combined with
    the correlation of the puzzles. Unpaired evaluations are treated as independent.
    """
    keys = sorted(before)
    if not keys or before.keys() != after.keys() or not len(keys) == first.prompts == last.prompts:
        apart = difference(measured_rate(first), measured_rate(last))
        return Gain(first, last, first.success, last.success, apart, paired=False)
    was, is_ = [before[key].solved for key in keys], [after[key].solved for key in keys]
    if first.samples == last.samples == 1:
        paired = paired_difference([share == 1 for share in was], [share == 1 for share in is_])
        return Gain(first, last, fmean(was), fmean(is_), paired, paired=True)
    paired = difference(measured_rate(first), measured_rate(last), correlation(was, is_))
    return Gain(first, last, first.success, last.success, paired, paired=True)


def wall(before: Mapping[PuzzleKey, PuzzlePlay], after: Mapping[PuzzleKey, PuzzlePlay]) -> list[WallSection]:
    """Return the puzzles of both evaluations by their change; empty without any."""
    puzzles = [Puzzle(key[0], before[key], after[key]) for key in sorted(before.keys() & after.keys())]
    members: dict[str, list[Puzzle]] = {change: [] for change in CHANGES}
    for puzzle in puzzles:
        members[puzzle.change].append(puzzle)
    start, sections = 0, []
    for change, changed in members.items():
        sections.append(WallSection(change, start, len(changed), changed[: max(0, MAX_PUZZLES - start)]))
        start += len(changed)
    return sections if puzzles else []


def trend(values: Sequence[float]) -> Trend | None:
    """Return the means at the two ends of training, which do not overlap; None with fewer than two iterations."""
    count = min(TREND_ITERATIONS, len(values) // 2)
    return Trend(fmean(values[:count]), fmean(values[-count:]), count) if count else None


def evaluated_at(checkpoint: int, success: Mapping[int, float]) -> int | None:
    """Return the iteration of the worse of the two evaluations around a checkpoint; None without one.

    The evaluation before training does not count, since it used other weights.
    """
    previous = max((iteration for iteration in success if 0 < iteration <= checkpoint), default=None)
    following = min((iteration for iteration in success if 0 < checkpoint <= iteration), default=None)
    around = [iteration for iteration in (previous, following) if iteration is not None]
    return min(around, key=lambda iteration: success[iteration], default=None)


def best_checkpoint(stored: Sequence[int], success: Mapping[int, float]) -> int | None:
    """Return the stored checkpoint with the highest success, else the newest one; None without checkpoints.

    The last one before a collapse may be between two evaluations.
    """

    def order(checkpoint: int) -> tuple[float, bool, int]:
        evaluated = evaluated_at(checkpoint, success)
        return -1.0 if evaluated is None else success[evaluated], evaluated == checkpoint, checkpoint

    return max(stored, key=order, default=None)


def gain_parts(evaluations: Sequence[Evaluation], plays: Mapping[int, Mapping[PuzzleKey, PuzzlePlay]]) -> list[Gain]:
    """Return the gain by imitation and the gain by reinforcement; empty for runs without an evaluation between them."""
    first, last = evaluations[0], evaluations[-1]
    warmed_up = next((evaluation for evaluation in evaluations if evaluation.iteration == 0), None)
    if warmed_up is None or not first.iteration < 0 < last.iteration:
        return []
    before, between, after = (plays.get(at, {}) for at in (first.iteration, 0, last.iteration))
    return [gain(first, warmed_up, before, between), gain(warmed_up, last, between, after)]


def result(
    run: Run,
    evaluations: Sequence[Evaluation],
    plays: Mapping[int, Mapping[PuzzleKey, PuzzlePlay]],
    checkpoints: Sequence[int],
    metrics: Mapping[str, Sequence[float]],
    trajectories: int,
    attempts: AttemptsResult | None = None,
    learned: Sequence[LearnedPuzzle] = (),
) -> RunResult:
    """Return the result of a run.

    Args:
        run: the ended run.
        evaluations: evaluations of its main suite, by iteration.
        plays: iteration → puzzles of that evaluation; at least for the first, the last, and the one after a warm-up.
        checkpoints: iterations of the stored checkpoints.
        metrics: success rate and mean reward of each training iteration, in order.
        trajectories: number of its training trajectories.
        attempts: known results of these, if the run has nothing else to show.
        learned: most recently learned evaluation puzzles.
    """
    first, last = (evaluations[0], evaluations[-1]) if evaluations else (None, None)
    compared = None
    parts: list[Gain] = []
    sections: list[WallSection] = []
    if first is not None and last is not None and first is not last:
        first_plays, last_plays = plays.get(first.iteration, {}), plays.get(last.iteration, {})
        compared, sections = gain(first, last, first_plays, last_plays), wall(first_plays, last_plays)
        parts = gain_parts(evaluations, plays)
    success = {evaluation.iteration: evaluation.success for evaluation in evaluations}
    checkpoint = best_checkpoint(checkpoints, success)
    evaluated = None if checkpoint is None else evaluated_at(checkpoint, success)
    return RunResult(
        suite=last.suite if last else "",
        last=last,
        gain=compared,
        parts=parts,
        best=max(evaluations, key=lambda evaluation: (evaluation.success, -evaluation.iteration), default=None),
        wall=sections,
        checkpoint=checkpoint,
        checkpoint_success=None if evaluated is None else success[evaluated],
        checkpoint_evaluated=evaluated,
        success_trend=trend(metrics.get(SUCCESS, ())),
        reward_trend=trend(metrics.get(REWARD, ())),
        iterations=max(map(len, metrics.values()), default=0),
        attempts=attempts,
        seconds=run.summary.get("seconds"),
        tokens=run.summary.get("tokens"),
        trajectories=trajectories,
        learned=learned,
    )


def of_run(run: Run) -> RunResult | None:
    """Return the result of a run that has finished or was stopped, else None. At most seven queries."""
    if run.state not in ENDED:
        return None
    every = list(Evaluation.objects.filter(run=run).order_by("iteration"))
    suite = main_suite(every, run.environment)
    evaluations = [evaluation for evaluation in every if evaluation.suite == suite]
    metrics: dict[str, list[float]] = {SUCCESS: [], REWARD: []}
    if not evaluations:
        points = MetricPoint.objects.filter(run=run, name__in=metrics).order_by("name", "iteration")
        for name, value in points.values_list("name", "value"):
            metrics[name].append(value)
    measured = bool(evaluations) or any(len(values) > 1 for values in metrics.values())
    return result(
        run,
        evaluations,
        load_plays(run, suite, {evaluations[0].iteration, 0, evaluations[-1].iteration})
        if len(evaluations) > 1
        else {},
        list(run.checkpoints.order_by("iteration").values_list("iteration", flat=True)),
        metrics,
        _trained_on(run),
        None if measured or run.recorded is None else _attempts(run),
        learned_lately(run, suite, [evaluation.iteration for evaluation in evaluations])
        if len(evaluations) > 1
        else (),
    )


def _trained_on(run: Run) -> int:
    """Count training trajectories; our trainer's groups all have the planned size, which is faster to count."""
    if run.recorded is not None:
        return Trajectory.objects.current().filter(run=run, split="train").count()
    groups = Group.objects.filter(run=run, split="train", superseded=False).count()
    return groups * int(run.config.get("rollout", {}).get("group_size", 0))


def _attempts(run: Run) -> AttemptsResult | None:
    """Return known results of the run's training attempts; None without any success or reward. One query."""
    with_reward = Q(status__in=WITH_REWARD, rewarded=True)
    numbers = (
        Trajectory.objects.current()
        .filter(run=run, split="train")
        .aggregate(
            every=Count("pk"),
            known=Count("pk", filter=Q(status__in=Trajectory.COUNTED)),
            solved=Count("pk", filter=Q(status=Trajectory.Status.SUCCESS)),
            rewards=Count("pk", filter=with_reward),
            mean=Avg("total_reward", filter=with_reward),
        )
    )
    known, rewards = numbers["known"], numbers["rewards"]
    if not known and not rewards:
        return None
    share = numbers["solved"] / known if known else None
    return AttemptsResult(numbers["every"], known, share, rewards, numbers["mean"])


def load_plays(run: Run, suite: str, iterations: set[int]) -> dict[int, dict[PuzzleKey, PuzzlePlay]]:
    """Return the puzzles of the suite by iteration, if all of their attempts have a result. One query."""
    rows = (
        Trajectory.objects.filter(run=run, split="eval", iteration__in=iterations, superseded=False, group__suite=suite)
        .order_by("iteration", "group__number", "member")
        .values_list("iteration", "group__number", "group__environment", "group__seed", "status", "slug")
    )
    plays: dict[int, dict[PuzzleKey, PuzzlePlay]] = defaultdict(dict)
    for (iteration, *key), group_rows in groupby(rows, key=lambda row: row[:4]):
        attempts = list(group_rows)
        if all(row[4] in Trajectory.COUNTED for row in attempts):
            solved = fmean(row[4] == Trajectory.Status.SUCCESS for row in attempts)
            plays[iteration][key[0], key[1], key[2]] = PuzzlePlay(solved, attempts[0][5])
    return plays
