"""Answers to questions about recorded attempts: branches, the value of turns, the influence of thoughts."""

from __future__ import annotations

import time
from pathlib import Path

from trainer.branching import sample_statistics
from trainer.branching.asking import Asker, FinishedBranches, listener, played, restored, temperature_of
from trainer.branching.attempt_thoughts import turn_influences
from trainer.branching.misreadings import correct_misreadings
from trainer.branching.player import BranchPlayer, Play
from trainer.branching.starting_points import StartingPoints
from trainer.branching.thought_survey import survey_thoughts
from trainer.config.run import JournalConfig
from trainer.journal.branches import (
    Advanced,
    Branches,
    CompareThoughts,
    CorrectMisreadings,
    FindValue,
    Influences,
    Played,
    PlayOn,
    Question,
    Result,
    SurveyThoughts,
    Values,
)
from trainer.journal.events import Event, TrajectoryFinished, TrajectoryTokens, Turn
from trainer.learner.token_recorder import TokenRecorder
from trainer.loops.recorded_attempts import turns_beside
from trainer.loops.recorded_evaluations import find_evaluation
from trainer.seeds import Purpose


def answer(question: Question, player: BranchPlayer, asker: Asker) -> Result:
    """Answer a question about an attempt or an evaluation. Returns the last answer.

    Raises:
        Interrupted: the asker stopped.
        Exception: there is no answer; the message is for users unless it is a defect.
    """
    folder = Path(question.folder or player.weights.folder)
    if isinstance(question, CorrectMisreadings | SurveyThoughts):
        evaluation = find_evaluation(folder, question.iteration, question.suite)
        if isinstance(question, SurveyThoughts):
            return survey_thoughts(question, evaluation, player, asker)
        return correct_misreadings(question, evaluation, player, asker)
    points = player.starting_points(folder, question.trajectory)
    match question:
        case PlayOn():
            return _branch(question, points, player, asker)
        case FindValue():
            return _value(question, points, player, asker)
        case CompareThoughts():
            return _thoughts(question, points, player, asker)


def _branch(question: PlayOn, points: StartingPoints, player: BranchPlayer, asker: Asker) -> Branches:
    turn, samples, temperature = question.turn, question.samples, temperature_of(question, points)
    luck = points.seeds(Purpose.DYNAMICS, turn, range(samples)) if question.luck == "fresh" else []
    position = player.scored(points.position(turn, question.change, luck), points, temperature)
    plan = points.plan(position, samples)
    numbers = {name: number for number, name in enumerate(plan.members)}
    asker.answer(restored(question.id, points, turn, position.beginning))

    def emit(*events: Event) -> None:
        for event in events:
            if isinstance(event, Turn | TrajectoryFinished | TrajectoryTokens):
                event.time = time.time()
                asker.answer(Played(id=question.id, branch=numbers[event.trajectory], event=event))

    play = Play(
        emit=emit,
        stop=asker.stop,
        progress=FinishedBranches(question.id, samples, asker),
        listener=listener(question.id, numbers, points, asker),
    )
    trajectories = played(player, points, [plan], temperature, play)
    emit(*TokenRecorder(JournalConfig(tokens="all"), points.chat).evaluated(trajectories))
    complete = [trajectory for trajectory in trajectories if not trajectory.failed]
    solved = sample_statistics.share_of([trajectory.success for trajectory in complete])
    return Branches(id=question.id, solved=solved, failed=samples - len(complete))


def _value(question: FindValue, points: StartingPoints, player: BranchPlayer, asker: Asker) -> Values:
    turns, samples = range(len(points.attempt.turns)), question.samples
    outcomes = []
    asker.answer(restored(question.id, points, 0))
    for turn in turns:
        luck = points.seeds(Purpose.DYNAMICS, turn, range(samples))
        plan = points.plan(points.position(turn, luck=luck), samples)
        play = Play(stop=asker.stop, listener=listener(question.id, {}, points, asker))
        trajectories = played(player, points, [plan], temperature_of(question, points), play)
        outcomes.append([trajectory.success for trajectory in trajectories if not trajectory.failed])
        asker.answer(Advanced(id=question.id, done=(turn + 1) * samples, total=len(turns) * samples))
    finished = points.attempt.finished
    values = sample_statistics.values_of(outcomes, finished.success if finished else None)
    return values.model_copy(update={"id": question.id})


def _thoughts(question: CompareThoughts, points: StartingPoints, player: BranchPlayer, asker: Asker) -> Influences:
    attempt, found = points.attempt, []
    others = list(turns_beside(Path(question.folder or player.weights.folder), attempt))
    asker.answer(restored(question.id, points, 0))
    play = Play(stop=asker.stop, listener=listener(question.id, {}, points, asker), turns=1)
    temperature = temperature_of(question, points)
    for influence in turn_influences(points, others, question.samples, temperature, player, play):
        found.append(influence)
        asker.answer(Advanced(id=question.id, done=influence.turn + 1, total=len(attempt.turns)))
    return sample_statistics.influences_of(found).model_copy(update={"id": question.id})
