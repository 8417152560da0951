"""The influence of thoughts over an evaluation: means over its attempts."""

from __future__ import annotations

from trainer.branching.asking import Asker, listener, restored, temperature_of
from trainer.branching.attempt_thoughts import turn_influences
from trainer.branching.evaluation_statistics import Measured, draw, mean_over_attempts
from trainer.branching.player import BranchPlayer, Play
from trainer.branching.sample_statistics import influences_of
from trainer.journal.branches import Advanced, AttemptInfluence, Influences, Survey, SurveyThoughts
from trainer.loops.recorded_evaluations import RecordedEvaluation


def survey_thoughts(
    question: SurveyThoughts, evaluation: RecordedEvaluation, player: BranchPlayer, asker: Asker
) -> Survey:
    """Measure the influence of the thoughts of attempts, at most as many as the question wants.

    Raises:
        Interrupted: the asker stopped.
        ChangeError: the policy writes no thoughts.
        PositionError: the environment cannot be played again.
    """
    chosen = [
        player.points(attempt) for attempt in draw(evaluation.attempts, question.attempts, lambda attempt: attempt)
    ]
    asker.answer(restored(question.id, chosen[0], 0))
    done, total = 0, sum(len(points.attempt.turns) for points in chosen)
    found: list[Influences] = []
    for points in chosen:
        others = [turn for other in evaluation.attempts if other is not points.attempt for turn in other.turns]
        play = Play(stop=asker.stop, listener=listener(question.id, {}, points, asker), turns=1)
        turns = []
        for influence in turn_influences(
            points, others, question.samples, temperature_of(question, points), player, play
        ):
            turns.append(influence)
            asker.answer(Advanced(id=question.id, done=done + influence.turn + 1, total=total))
        done += len(points.attempt.turns)
        found.append(influences_of(turns))
    puzzles = [points.attempt.group.group for points in chosen]
    by_attempt = list(zip(puzzles, found, strict=True))
    return Survey(
        id=question.id,
        iteration=evaluation.iteration,
        suite=evaluation.suite,
        attempts=len(evaluation.attempts),
        rows=[
            AttemptInfluence(
                trajectory=points.attempt.trajectory,
                turns=len(influences.turns),
                influence=influences.influence,
                follows_false_claims=influences.follows_false_claims,
            )
            for points, influences in zip(chosen, found, strict=True)
        ],
        influence=mean_over_attempts(
            Measured(puzzle, [turn.influence for turn in influences.turns if turn.influence is not None])
            for puzzle, influences in by_attempt
        ),
        follows_false_claims=mean_over_attempts(
            Measured(puzzle, [t.follows_false_claims for t in influences.turns if t.follows_false_claims is not None])
            for puzzle, influences in by_attempt
        ),
    )
