"""Branches from positions of recorded attempts: what they repeat, what is changed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.envs.playable_names import PLAYABLE
from tests.tiers import nightly_but
from tests.trainer import tiny
from tests.trainer.branching.recordings import attempts, edit_journal, load, play_on, record
from tests.trainer.loops.test_train import run
from trainer.branching.changed_response import ChangeError
from trainer.branching.local_player import LocalPlayer
from trainer.branching.player import Play, Weights
from trainer.branching.starting_points import StartingPoints
from trainer.branching.unsampled import dialogue, score
from trainer.journal import token_arrays
from trainer.journal.branches import Restored
from trainer.journal.events import TrajectoryFinished, TrajectoryTokens, Turn
from trainer.loops.recorded_attempts import RecordingError, find_attempt
from trainer.paths import POCKET_CHECKPOINT
from trainer.rollout.positions import PositionError
from trainer.rollout.runner import Interrupted

SETTINGS = {"FrozenLake": {"slippery": True}}
SLOW = {"Boxoban", "ToolMCP", "ToolPython", "WebShop"}
"""Environments that start processes or read large files; Gymnasium's are sandboxed as well."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Greedy recordings in Sokoban."""
    return record(tmp_path_factory.mktemp("sokoban"), prompts=3)


@pytest.fixture(scope="module")
def player(folder: Path) -> LocalPlayer:
    return load(folder)


def comparable(turn: Turn) -> dict:
    return turn.model_dump(exclude={"seq", "time", "trajectory", "entropy", "logprob"})


def check_scores(player: LocalPlayer, points: StartingPoints, turns: range) -> None:
    """Compare the recorded log-probabilities with the log-probabilities of the restored dialogue."""
    position = points.position(turns[-1])
    restored = dialogue(points, position, points.responses[: len(turns)])
    scored = score(player.policy, restored.sequences(), points.attempt.temperature)
    for turn in turns:
        recorded = np.asarray(points.responses[turn].logprobs)
        rounding = np.abs(np.spacing(recorded.astype(np.float16)).astype(float))  # of the journal's half precision
        assert (np.abs(np.asarray(scored[turn][0]) - recorded) <= 1e-4 + rounding).all()


def check_positions(folder: Path, count: int) -> int:
    """Compare greedy branches from the first positions of a greedy recording with it. Returns how many there are."""
    player, checked = load(folder), 0
    for name in attempts(folder):
        points = player.starting_points(folder, name)
        attempt = points.attempt
        turns = range(len(attempt.turns))[: count - checked]
        plans = [points.plan(points.position(turn), 1, group=turn) for turn in turns]
        if not plans:
            break
        assert points.tokens == "recorded"
        for turn, played in zip(turns, player.play(points, plans, 0.0, Play()), strict=True):
            where = f"{name} at turn {turn}"
            assert [comparable(t) for t in played.turns[turn:]] == [comparable(t) for t in attempt.turns[turn:]], where
            assert [token for token, of in zip(played.ids, played.turn_of, strict=True) if of >= 0] == (
                attempt.tokens.ids.tolist()
            ), where
            end = played.finished()
            assert (end.success, end.end, end.total_reward) == (
                attempt.finished.success,
                attempt.finished.end,
                attempt.finished.total_reward,
            )
            checked += 1
        check_scores(player, points, turns)
    player.close()
    return checked


@pytest.mark.parametrize("name", nightly_but(PLAYABLE, set(PLAYABLE) - SLOW))
def test_greedy_branches_repeat_a_greedy_recording(name, tmp_path):
    environment = {"name": name, "settings": SETTINGS.get(name, {})}
    assert check_positions(record(tmp_path, environment=environment), 4)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PLAYABLE)
def test_greedy_branches_repeat_a_greedy_recording_at_a_hundred_positions(name, tmp_path):
    environment = {"name": name, "settings": SETTINGS.get(name, {})}
    found = [check_positions(record(tmp_path / "few", environment=environment, prompts=30), 100)]
    if found[0] < 100:  # some have attempts of one turn
        found.append(check_positions(record(tmp_path / "many", environment=environment, prompts=100), 100))
    assert found[-1] == 100


def test_attempts_of_training_are_restored_in_each_of_its_environments(tmp_path):
    environment = {
        "name": "FrozenLake",
        "settings": {"slippery": True},
        "mix": [{"name": "Game2048", "share": 0.5, "max_turns": 3}],
    }
    rollout = {"groups": 2, "group_size": 3, "max_turns": 3, "max_response_tokens": 48}
    run(tiny.config(POCKET_CHECKPOINT, iterations=2, environment=environment, rollout=rollout), tmp_path)
    player, names = LocalPlayer.load(Weights(tmp_path, 1), threads=1), set()
    for name in attempts(tmp_path):
        points = player.starting_points(tmp_path, name)
        if points.attempt.group.split == "train" and points.attempt.sampled_after == 1:
            turns = range(len(points.attempt.turns))
            plans = [points.plan(points.position(turn), 1, group=turn) for turn in turns]
            played = player.play(points, plans, points.attempt.temperature, Play(turns=1))
            for turn, branch in zip(turns, played, strict=True):
                assert [t.state for t in branch.turns] == [t.state for t in points.attempt.turns[: turn + 1]]
            check_scores(player, points, turns)
            names.add(points.config.environment.name)
    player.close()
    assert names == {"FrozenLake", "Game2048"}


def test_windows_and_responses_that_end_at_their_answer_are_restored(tmp_path):
    rollout = {"context_turns": 2, "format_line": "words"}
    assert check_positions(record(tmp_path, rollout=rollout), 8) >= 4


def test_the_same_question_has_the_same_answer_and_samples_differ(folder, player):
    name = attempts(folder)[0]
    once, again = (play_on(player, trajectory=name, turn=0, samples=4, temperature=1) for _ in range(2))
    responses = [[turn.response for turn in once.events(Turn, branch)] for branch in range(4)]
    assert responses == [[turn.response for turn in again.events(Turn, branch)] for branch in range(4)]
    assert len({tuple(texts) for texts in responses}) > 1
    fewer = play_on(player, trajectory=name, turn=0, samples=1, temperature=1)
    assert [turn.response for turn in fewer.events(Turn)] == responses[0], "a branch does not depend on the others"


def test_branches_are_written_as_in_a_journal(folder, player):
    name = attempts(folder)[0]
    asked = play_on(player, trajectory=name, turn=1, samples=2)
    attempt = find_attempt(folder, name)
    assert asked.answers[0] == Restored(id="q", turn=1, tokens="recorded", beginning="")
    for branch in range(2):
        assert [turn.turn for turn in asked.events(Turn, branch)] == [turn.turn for turn in attempt.turns[1:]]
        (end,) = asked.events(TrajectoryFinished, branch)
        assert (end.turns, end.success) == (len(attempt.turns), attempt.finished.success)
        (tokens,) = asked.events(TrajectoryTokens, branch)
        assert token_arrays.unpack(tokens.data).ids.tolist() == attempt.tokens.ids.tolist()
    assert asked.result.solved.samples == 2


def test_an_edited_thought_is_kept_and_the_answer_sampled_after_it(folder, player):
    name = attempts(folder)[0]
    thought = "Target 3,3. I push the box."
    asked = play_on(player, trajectory=name, turn=1, samples=3, temperature=1, change={"thought": thought})
    assert asked.answers[0].beginning == f"{thought}</think><answer>"
    for branch in range(3):
        first = asked.events(Turn, branch)[0]
        assert (first.turn, first.thought) == (1, thought)
        assert first.response.startswith(f"{thought}</think><answer>")
        assert first.answer
        assert first.logprob < 0, "edited tokens have the policy's probabilities"
        assert len(asked.events(TrajectoryTokens, branch)) == 1
    assert len({asked.events(Turn, branch)[0].answer for branch in range(3)}) > 1


def test_an_edited_answer_is_taken_and_played_on_from(folder, player):
    name = attempts(folder)[0]
    recorded = find_attempt(folder, name).turns
    asked = play_on(player, trajectory=name, turn=0, change={"answer": "Up"})
    first, *rest = asked.events(Turn)
    assert (first.turn, first.thought, first.answer) == (0, recorded[0].thought, "Up")
    assert [action.name for action in first.actions] == ["Up"]
    assert rest
    assert rest[0].turn == 1


def test_an_edited_state_is_read_while_the_environment_stays_as_it_is(folder, player):
    name = attempts(folder)[0]
    recorded = find_attempt(folder, name).turns[1]
    text = recorded.state.replace("P", "_")
    asked = play_on(player, trajectory=name, turn=1, change={"state": text})
    first = asked.events(Turn)[0]
    assert (first.state, first.board) == (text, recorded.board)


def test_a_response_that_ends_the_episode_needs_no_sampling(tmp_path):
    folder = record(tmp_path, environment={"name": "Bandit"}, rollout={})
    asked = play_on(load(folder), trajectory=attempts(folder)[0], turn=0, samples=2, change={"answer": "Phoenix"})
    for branch in range(2):
        assert [turn.answer for turn in asked.events(Turn, branch)] == ["Phoenix"]
        assert asked.events(TrajectoryFinished, branch)[0].end == "terminated"


def test_fresh_luck_differs_between_branches_and_recorded_luck_does_not(tmp_path):
    folder = record(tmp_path, prompts=1, environment={"name": "FrozenLake", "settings": {"slippery": True}})
    player, name = load(folder), attempts(folder)[0]
    common = {"trajectory": name, "turn": 0, "samples": 16, "change": {"answer": "Up || Left || Down || Right"}}
    boards = {
        luck: {
            json.dumps([action.board.rows for action in asked.events(Turn, branch)[0].actions if action.board])
            for branch in range(16)
        }
        for luck in ("recorded", "fresh")
        for asked in [play_on(player, luck=luck, **common)]
    }
    assert len(boards["recorded"]) == 1
    assert len(boards["fresh"]) > 1


def test_without_recorded_tokens_the_text_is_encoded(folder, player, tmp_path):
    copy = edit_journal(
        folder, tmp_path / "copy", lambda event: None if event["type"] == "trajectory_tokens" else event
    )
    name = attempts(folder)[0]
    recorded = find_attempt(folder, name)
    asked = play_on(player, folder=str(copy), trajectory=name, turn=1)
    assert asked.answers[0].tokens == "encoded"
    assert [turn.response for turn in asked.events(Turn)] == [turn.response for turn in recorded.turns[1:]]
    (tokens,) = asked.events(TrajectoryTokens)
    found = token_arrays.unpack(tokens.data)
    np.testing.assert_allclose(found.logprobs, recorded.tokens.logprobs, atol=4e-3, rtol=2e-3)


def test_an_environment_that_differs_from_the_recording_is_named_with_its_turn(folder, player, tmp_path):
    name = attempts(folder)[0]

    def move(event: dict) -> dict:
        if event["type"] == "turn" and (event["trajectory"], event["turn"]) == (name, 1):
            return event | {"state": event["state"].replace("P", "@")}
        return event

    copy = str(edit_journal(folder, tmp_path / "copy", move))
    play_on(player, folder=copy, trajectory=name, turn=0)
    for turn in (1, 2):
        with pytest.raises(PositionError, match=r"at turn 2 the environment differs .* Recorded: .*@.* Now: .*P"):
            play_on(player, folder=copy, trajectory=name, turn=turn)


def test_other_weights_play_on_from_the_same_position(folder, pocket_folder, tmp_path):
    """Weights of another run, with other tokens: the dialogue is encoded again."""
    run(tiny.config(pocket_folder, iterations=1), tmp_path)
    other = LocalPlayer.load(Weights(tmp_path, 1), threads=1)
    name = attempts(folder)[0]
    asked = play_on(other, folder=str(folder), trajectory=name, turn=1)
    assert asked.answers[0].tokens == "encoded"
    assert asked.events(Turn)[0].state == find_attempt(folder, name).turns[1].state


@pytest.mark.parametrize(
    ("question", "error", "message"),
    [
        ({"turn": 99}, PositionError, "there is no turn 100"),
        ({"turn": 0, "trajectory": "nobody"}, RecordingError, "no attempt 'nobody'"),
        ({"turn": 0, "folder": "/nowhere"}, RecordingError, "no journal"),
        ({"turn": 0, "change": {"thought": "a</think>b"}}, ChangeError, "contains </think>"),
        ({"turn": 0, "change": {"state": "<|im_end|>"}}, ChangeError, r"contains <\|im_end\|>"),
        ({"turn": 0, "change": {"thought": "so " * 100}}, PositionError, "a response at most 48"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(folder, player, question, error, message):
    with pytest.raises(error, match=message):
        play_on(player, **{"trajectory": attempts(folder)[0], **question})


def test_a_stop_interrupts_the_branches(folder, player):
    with pytest.raises(Interrupted):
        play_on(player, lambda: True, trajectory=attempts(folder)[0], turn=0)
    assert play_on(player, trajectory=attempts(folder)[0], turn=0).result.solved.samples == 1
