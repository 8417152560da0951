"""Lost attempts of an evaluation, played on after their first misread position was put right, and without that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from envs.claims.corrections import CorrectedThought, corrected
from trainer.branching.asking import Asker, FinishedBranches, listener, played, restored, temperature_of
from trainer.branching.attempt_thoughts import beginning_with
from trainer.branching.evaluation_statistics import Continued, corrected_shares, draw
from trainer.branching.player import BranchPlayer, Play
from trainer.branching.starting_points import StartingPoints, branch_name
from trainer.engines.sampler import SampledResponse
from trainer.journal.branches import CorrectedAttempt, Corrections, CorrectMisreadings
from trainer.loops.recorded_evaluations import RecordedEvaluation
from trainer.rollout.runner import GroupPlan
from trainer.rollout.trajectory import Trajectory

MAX_ROWS = 64
"""Continuations that are played together."""


@dataclass(frozen=True)
class Misreading:
    """The first turn of an attempt at which a false position can be put right.

    Attributes:
        beginning: its response with the corrected thought, up to where the answer begins.
        own_beginning: the same with the recorded thought.
    """

    points: StartingPoints
    turn: int
    thought: CorrectedThought
    beginning: SampledResponse
    own_beginning: SampledResponse


def first_misreading(points: StartingPoints) -> Misreading | None:
    """Return the first misreading that can be put right; None if the attempt has none.

    The turn must have an answer behind its thought, and the corrected thought must fit into a response.
    """
    for recorded in points.attempt.turns:
        thought = corrected(recorded.thought, recorded.claims or ())
        if not thought.corrections or not points.has_answer(recorded.turn):
            continue
        if (beginning := beginning_with(points, recorded.turn, thought.text)) is not None:
            return Misreading(points, recorded.turn, thought, beginning, points.own_beginning(recorded.turn))
    return None


def correct_misreadings(
    question: CorrectMisreadings, evaluation: RecordedEvaluation, player: BranchPlayer, asker: Asker
) -> Corrections:
    """Play on from every lost attempt of an evaluation, with and without the correction.

    Both begin behind the thought and have the same seeds, so that they differ in the corrected words only. If the
    policy thought anew without the correction, the second thought would often be better by chance: the first one was
    chosen because the attempt was lost. Greedy continuations are all equal, so that one of each kind is played.

    Raises:
        Interrupted: the asker stopped.
        PositionError: the environment cannot be played again.
    """
    lost = [player.points(attempt) for attempt in evaluation.lost]
    found = [misreading for points in lost if (misreading := first_misreading(points))]
    chosen = draw(found, question.attempts, lambda misreading: misreading.points.attempt)
    if chosen:
        asker.answer(restored(question.id, chosen[0].points, chosen[0].turn, chosen[0].beginning))
    continued = list(_continue(question, chosen, player, asker))
    solved, solved_without, difference = corrected_shares(continued)
    return Corrections(
        id=question.id,
        iteration=evaluation.iteration,
        suite=evaluation.suite,
        attempts=len(evaluation.attempts),
        lost=len(lost),
        correctable=len(found),
        rows=[_row(misreading, outcomes) for misreading, outcomes in zip(chosen, continued, strict=True)],
        solved=solved,
        solved_without=solved_without,
        difference=difference,
    )


def _continue(
    question: CorrectMisreadings, chosen: Sequence[Misreading], player: BranchPlayer, asker: Asker
) -> Iterator[Continued]:
    """Yield the outcomes of the continuations of each attempt, in order; many attempts are played together."""
    samples = [question.samples if temperature_of(question, m.points) else 1 for m in chosen]
    progress = FinishedBranches(question.id, 2 * sum(samples), asker)
    for batch in _batches(list(zip(chosen, samples, strict=True))):
        points = batch[0][0].points
        plans = [plan for number, (misreading, n) in enumerate(batch) for plan in _plans(misreading, n, number)]
        play = Play(stop=asker.stop, progress=progress, listener=listener(question.id, {}, points, asker))
        trajectories = played(player, points, plans, temperature_of(question, points), play)
        progress(len(trajectories))
        progress.before += len(trajectories)
        for number, (misreading, _) in enumerate(batch):
            corrected_ones, own = (_outcomes(trajectories, 2 * number + kind) for kind in range(2))
            yield Continued(misreading.points.attempt.group.group, corrected_ones, own)


def _batches(chosen: Sequence[tuple[Misreading, int]]) -> Iterator[list[tuple[Misreading, int]]]:
    """Yield attempts that can be played together: with the same settings, and not too many."""
    for _, same in groupby(chosen, lambda item: item[0].points.config.digest()):
        batch: list[tuple[Misreading, int]] = []
        for item in same:
            if batch and 2 * (sum(samples for _, samples in batch) + item[1]) > MAX_ROWS:
                yield batch
                batch = []
            batch.append(item)
        yield batch


def _plans(misreading: Misreading, samples: int, number: int) -> Iterator[GroupPlan]:
    """Yield the plans of an attempt: after the corrected thought, and after its own."""
    points, turn = misreading.points, misreading.turn
    names = [branch_name(points.attempt.trajectory, turn, sample) for sample in range(samples)]
    kinds = {"corrected": misreading.beginning, "own": misreading.own_beginning}
    for kind, (word, beginning) in enumerate(kinds.items()):
        plan = points.plan(replace(points.position(turn), beginning=beginning), samples, group=2 * number + kind)
        yield replace(plan, members=tuple(f"{name}-{word}" for name in names))


def _outcomes(trajectories: Sequence[Trajectory], group: int) -> list[bool]:
    return [trajectory.success for trajectory in trajectories if trajectory.group == group and not trajectory.failed]


def _row(misreading: Misreading, outcomes: Continued) -> CorrectedAttempt:
    corrections = misreading.thought.corrections
    return CorrectedAttempt(
        trajectory=misreading.points.attempt.trajectory,
        turn=misreading.turn,
        claims=[correction.words for correction in corrections],
        corrections=[correction.right for correction in corrections if correction.right is not None],
        thought=misreading.thought.text,
        solved=sum(outcomes.corrected),
        samples=len(outcomes.corrected),
        solved_without=sum(outcomes.own),
        samples_without=len(outcomes.own),
    )
