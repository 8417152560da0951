"""A suite through training: gain from the first to the last evaluation, curve, and a wall of puzzles by evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.metrics import charts
from webapp.core.formatting import plural
from webapp.core.spacing import evenly
from webapp.explorer.run_result import Gain, PuzzleKey, PuzzlePlay, gain, gain_parts, load_plays
from webapp.runs.models import Evaluation, MetricPoint, Run

MAX_FRAMES = 60
"""Maximum number of evaluations on the wall; if there are more, they are evenly thinned out."""
MAX_PUZZLES = 1024
REFERENCES = {"solver": "success_best_play", "random moves": "success_random_play"}
"""Reference lines of the chart by label, with the metric of each."""


@dataclass(frozen=True)
class EvaluationFrame:
    """One evaluation on the wall: a character for each puzzle, 1 for solved, 0 for failed, – for not played."""

    iteration: int
    solved: str


@dataclass(frozen=True)
class ReferenceLevel:
    """A constant line of the chart; `top` is its distance from the top in percent."""

    label: str
    value: float

    @property
    def top(self) -> float:
        return round(100 * (1 - self.value), 1)


@dataclass(frozen=True)
class EvaluationHistory:
    """Contents of the page of evaluations for a suite, above its table.

    Attributes:
        gain: gain from the first evaluation to the last one; None with fewer than two.
        parts: its parts by imitation and by reinforcement, of a run with a warm-up on demonstrations.
        frames: the evaluations of the wall, oldest first.
        slugs: for each puzzle, the slug of its newest attempt, whose film shows it through training.
        numbers: for each puzzle, its number in the suite, from 0.
        references: lines of the solver and of random moves, if they are known.
        noun: what the run's pages call a puzzle (Run.task_noun).
    """

    evaluations: Sequence[Evaluation]
    gain: Gain | None
    parts: Sequence[Gain]
    frames: Sequence[EvaluationFrame]
    slugs: Sequence[str]
    numbers: Sequence[int]
    references: Sequence[ReferenceLevel]
    noun: str

    @property
    def puzzles(self) -> list[tuple[int, str]]:
        """Number and slug of each puzzle of the wall."""
        return list(zip(self.numbers, self.slugs, strict=True))

    @property
    def axes(self) -> charts.Axes:
        return charts.Axes(*charts.PLOT, self.evaluations[0].iteration, self.evaluations[-1].iteration, charts.SHARES)

    @property
    def curve(self) -> str:
        """Contents of the chart's <svg>: success with its interval between the reference lines."""
        axes = self.axes
        line = charts.Series(
            "success",
            [(evaluation.iteration, evaluation.success) for evaluation in self.evaluations],
            band=[
                (evaluation.iteration, evaluation.success_low, evaluation.success_high)
                for evaluation in self.evaluations
            ],
        )
        lines = "".join(
            f'<path class="reference" d="M0 {axes.y(level.value):g}H{axes.width:g}"/>' for level in self.references
        )
        return f"{charts.warm_up(axes)}{lines}{charts.drawn(line, axes)}"

    @property
    def last_change(self) -> str:
        """The last frame in words, as static/js/pages/evaluation_frames.js writes them when the page has loaded."""
        (*earlier, last) = self.frames
        played, won = len(last.solved.replace("–", "")), last.solved.count("1")
        parts = [f"{won} of {plural(played, self.noun)} solved"]
        if earlier:
            changes = list(zip(earlier[-1].solved, last.solved, strict=True))
            parts += [f"{changes.count(('0', '1'))} newly solved", f"{changes.count(('1', '0'))} newly lost"]
        when = f"After iteration {last.iteration}" if last.iteration else "Before the first iteration"
        return f"{'In the warm-up' if last.iteration < 0 else when}: {', '.join(parts)}"

    @property
    def wall(self) -> dict[str, Any]:
        """The frames for static/js/pages/evaluation_wall.js."""
        return {"frames": [[frame.iteration, frame.solved] for frame in self.frames], "noun": self.noun}


def make_frames(
    plays: Mapping[int, Mapping[PuzzleKey, PuzzlePlay]], keys: Sequence[PuzzleKey]
) -> list[EvaluationFrame]:
    """Return a frame for each evaluation. A puzzle with several attempts is solved if half of them succeed."""

    def sign(play: PuzzlePlay | None) -> str:
        return "–" if play is None else str(int(play.solved >= 0.5))

    return [
        EvaluationFrame(iteration, "".join(sign(plays[iteration].get(key)) for key in keys))
        for iteration in sorted(plays)
    ]


def load_history(run: Run, evaluations: Sequence[Evaluation]) -> EvaluationHistory:
    """Load the history of one suite, given its evaluations by iteration. Two queries."""
    suite = evaluations[0].suite
    shown = evenly([evaluation.iteration for evaluation in evaluations], MAX_FRAMES)
    plays = load_plays(run, suite, {*shown, 0})  # 0: after a warm-up
    keys = sorted({key for played in plays.values() for key in played})[:MAX_PUZZLES]
    newest: dict[PuzzleKey, str] = {}
    for iteration in sorted(plays):
        newest |= {key: play.slug for key, play in plays[iteration].items()}
    first, last = evaluations[0], evaluations[-1]
    return EvaluationHistory(
        evaluations,
        None
        if len(evaluations) < 2
        else gain(first, last, plays.get(first.iteration, {}), plays.get(last.iteration, {})),
        gain_parts(evaluations, plays),
        make_frames(plays, keys),
        [newest[key] for key in keys],
        [key[0] for key in keys],
        _references(run, suite),
        run.task_noun,
    )


def _references(run: Run, suite: str) -> list[ReferenceLevel]:
    names = {f"eval/{suite}/{metric}": label for label, metric in REFERENCES.items()}
    values = dict(
        MetricPoint.objects.filter(run=run, name__in=names).order_by("iteration").values_list("name", "value")
    )
    return [ReferenceLevel(label, values[name]) for name, label in names.items() if name in values]
