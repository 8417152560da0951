"""Correcting what lost attempts misread, and the influence of thoughts over an evaluation, on known policies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envs import registry
from envs.base import Claim, GridBoard
from tests.trainer.branching.constructed import STATE, Constructed, best_actions
from tests.trainer.branching.recordings import attempts, edit_journal, load, record
from trainer.branching.asking import Asker
from trainer.branching.local_player import LocalPlayer
from trainer.branching.misreadings import first_misreading
from trainer.branching.player import Weights
from trainer.branching.questions import answer
from trainer.journal.branches import Advanced, Answer, Corrections, CorrectMisreadings, Survey, SurveyThoughts
from trainer.loops.recorded_attempts import RecordingError
from trainer.loops.recorded_evaluations import find_evaluation
from trainer.rollout.runner import Interrupted

LONG = {"max_turns": 2, "max_actions": 40, "max_actions_per_turn": 40, "max_response_tokens": 200}
Choose = Callable[[str, str, int], str]


def false_position(board: dict[str, Any]) -> tuple[str, str, Claim]:
    """A thought that misplaces the box of a board, the same put right, and its claim."""
    grid = GridBoard.model_validate(board)
    (box,) = [(row, at) for row, cells in enumerate(grid.rows) for at, cell in enumerate(cells) if cell in "$*"]
    for row in range(1, 7):
        for column in range(1, 7):
            thought = f"Box {row},{column}."
            (claim,) = registry.read_claims("Sokoban", thought, grid) or [None]
            if claim is not None and not claim.true and claim.cells:
                return thought, f"Box {box[0] + 1},{box[1] + 1}.", claim
    raise AssertionError("every position is true")


def misread(event: dict[str, Any]) -> dict[str, Any] | None:
    """Lines of a journal in which every attempt but one is lost and misplaces the box at its first turn."""
    if event["type"] == "trajectory_tokens":
        return None
    if event["type"] == "trajectory_finished":
        return event | {"success": event["trajectory"].endswith("p000")}
    if event["type"] != "turn" or event["turn"] > 0:
        return event
    thought, _, claim = false_position(event["board"])
    response = f"{thought}</think>{event['response'].partition('</think>')[2]}"
    return event | {"thought": thought, "response": response, "claims": [claim.model_dump(mode="json")]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sampled evaluation of the pocket policy, with budgets in which one answer can solve a puzzle."""
    return record(tmp_path_factory.mktemp("recorded"), prompts=5, temperature=1.0, rollout=LONG)


@pytest.fixture(scope="module")
def misreading(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edit_journal(folder, tmp_path_factory.mktemp("misread") / "run", misread)


def ask(folder: Path, question: CorrectMisreadings | SurveyThoughts, choose: Choose) -> tuple[Any, list[Answer]]:
    """The answer of a constructed policy, and what came before it."""
    answers: list[Answer] = []
    player = LocalPlayer(load(folder).policy, Weights(folder, 0), make=lambda config, chat: Constructed(chat, choose))
    return answer(question, player, Asker(answers.append)), answers


def test_a_policy_that_trusts_its_thought_wins_once_the_thought_is_right(folder: Path, misreading: Path) -> None:
    def trusting(prompt: str, thought: str, seed: int) -> str:
        return best_actions(STATE.findall(prompt)[-1], 40) if thought in right else "Nothing"

    thoughts = {}
    for attempt in find_evaluation(misreading).lost:
        thoughts[attempt.trajectory] = false_position(attempt.turns[0].board.model_dump())
    right = {thought[1] for thought in thoughts.values()}
    asked = CorrectMisreadings(id="q", folder=str(misreading), samples=3)
    found, answers = ask(folder, asked, trusting)
    assert isinstance(found, Corrections)
    assert (found.iteration, found.suite, found.attempts, found.lost, found.correctable) == (0, "Sokoban", 5, 4, 4)
    assert [row.trajectory for row in found.rows] == attempts(folder)[1:]
    for row in found.rows:
        assert (row.turn, row.solved, row.samples, row.solved_without, row.samples_without) == (0, 3, 3, 0, 3)
        wrong, corrected, _ = thoughts[row.trajectory]
        assert (row.claims, row.corrections, row.thought) == ([wrong[:-1]], [corrected[:-1]], corrected)
    assert (found.solved.share, found.solved_without.share) == (1, 0)
    assert found.difference is not None
    assert (found.difference.value, found.difference.high) == (1, 1)
    assert 0 < found.difference.low < 1, "four attempts are no proof"
    advanced = [message for message in answers if isinstance(message, Advanced)]
    assert [message.done for message in advanced] == sorted({message.done for message in advanced})
    assert (advanced[-1].done, advanced[-1].total) == (24, 24)


def test_both_kinds_of_continuations_have_the_same_seeds(folder: Path, misreading: Path) -> None:
    def lucky(prompt: str, thought: str, seed: int) -> str:
        return best_actions(STATE.findall(prompt)[-1], 40) if seed % 2 else "Nothing"

    asked = CorrectMisreadings(id="q", folder=str(misreading), samples=8, attempts=3)
    found, _ = ask(folder, asked, lucky)
    assert [row.solved for row in found.rows] == [row.solved_without for row in found.rows]
    assert (len(found.rows), found.correctable) == (3, 4), "at most as many attempts as asked for"
    assert 0 < found.solved.solved < found.solved.samples
    assert found.difference is not None
    assert found.difference.low < found.difference.value == 0 < found.difference.high
    fewer, _ = ask(folder, asked.model_copy(update={"attempts": 2}), lucky)
    assert {row.trajectory for row in fewer.rows} < {row.trajectory for row in found.rows}


def test_greedy_continuations_without_the_correction_are_the_lost_recording(tmp_path: Path) -> None:
    """By the policy itself, which is asked once for each kind, since it would repeat itself."""
    folder = record(tmp_path, prompts=6)
    player = load(folder)
    found = answer(CorrectMisreadings(id="q", samples=4), player, Asker(lambda message: None))
    assert isinstance(found, Corrections)
    assert found.lost == sum(not attempt.finished.success for attempt in find_evaluation(folder).attempts)
    for row in found.rows:
        assert (row.samples, row.samples_without, row.solved_without) == (1, 1, 0)


def test_the_first_turn_that_can_be_corrected_is_taken(misreading: Path, folder: Path, tmp_path: Path) -> None:
    name, player = attempts(folder)[1], load(folder)

    def late(event: dict[str, Any]) -> dict[str, Any]:
        if event["type"] != "turn" or event["trajectory"] != name:
            return event
        thought, _, claim = false_position(event["board"])
        unclear = claim.model_copy(update={"actual_cells": [(1, 1), (2, 2)]})
        claims = [unclear if event["turn"] == 0 else claim]
        response = f"{thought}</think>{event['response'].partition('</think>')[2]}"
        values = {"thought": thought, "response": response, "claims": [one.model_dump(mode="json") for one in claims]}
        return event | values

    copy = edit_journal(misreading, tmp_path / "late", late)
    points = player.starting_points(copy, name)
    found = first_misreading(points)
    if len(points.attempt.turns) == 1:
        assert found is None
    else:
        assert found is not None
        assert (found.turn, len(found.thought.corrections)) == (1, 1)


def test_the_influence_of_thoughts_over_an_evaluation(folder: Path) -> None:
    def copied(prompt: str, thought: str, seed: int) -> str:
        return "Up" if thought.strip() else "Down"

    deciding, answers = ask(folder, SurveyThoughts(id="q", samples=2), copied)
    assert isinstance(deciding, Survey)
    assert [row.trajectory for row in deciding.rows] == attempts(folder)
    assert {row.influence for row in deciding.rows} == {1.0}
    assert (deciding.influence.value, deciding.influence.high) == (1, 1)
    assert 0.3 < deciding.influence.low < 0.8
    assert deciding.follows_false_claims.value == 0
    advanced = [message for message in answers if isinstance(message, Advanced)]
    assert advanced[-1].total == sum(len(attempt.turns) for attempt in find_evaluation(folder).attempts)
    ignoring, _ = ask(folder, SurveyThoughts(id="q", samples=2, attempts=2), lambda prompt, thought, seed: "Up")
    assert len(ignoring.rows) == 2
    assert (ignoring.influence.low, ignoring.influence.value) == (0, 0)


def test_evaluations_are_named_or_refused_in_a_sentence(folder: Path) -> None:
    named, newest = find_evaluation(folder, 0, "Sokoban"), find_evaluation(folder)
    assert [attempt.trajectory for attempt in newest.attempts] == attempts(folder)
    assert [attempt.turns for attempt in newest.attempts] == [attempt.turns for attempt in named.attempts]
    with pytest.raises(RecordingError, match="not evaluated in Bandit; its suites are Sokoban"):
        find_evaluation(folder, suite="Bandit")
    with pytest.raises(RecordingError, match="no finished attempt of an evaluation in Sokoban after iteration 7"):
        find_evaluation(folder, 7)


def test_a_stop_interrupts_both_questions(folder: Path, misreading: Path) -> None:
    player = load(folder)
    for question in (CorrectMisreadings(id="q", folder=str(misreading)), SurveyThoughts(id="q")):
        with pytest.raises(Interrupted):
            answer(question, player, Asker(lambda message: None, lambda: True))
