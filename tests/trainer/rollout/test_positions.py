"""Rollouts that begin at a position: what the engine reads, what is recorded, what cannot be restored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from trainer.config.run import RunConfig
from trainer.journal.events import GroupStarted, TrajectoryFinished, Turn
from trainer.rollout.positions import Position, PositionError
from trainer.rollout.rebuilding import CONTEXT_FULL
from trainer.rollout.runner import GroupPlan, RolloutRequest, RolloutRunner

SETTINGS = {"rollout": {"max_turns": 4, "max_actions": 8, "max_response_tokens": 40}}
ANSWERS = ("Left", "Up", "Down", "Right")


def play(chat, responses, position=None, *, context=2048, turns=None, **rollout):
    """Play an attempt of Sokoban with these responses. Returns its trajectory, the events, and the sampler."""
    config = RunConfig.model_validate({"rollout": SETTINGS["rollout"] | rollout})
    sampler, events = ScriptedSampler([responses]), []
    runner = RolloutRunner(config, chat, sampler, context, emit=lambda *some: events.extend(some))
    plan = GroupPlan(
        group=0, seed=1, members=("t",), dynamics_seeds=(2,), sampling_seeds=(3,), config=config, position=position
    )
    request = RolloutRequest([plan], 1, split="train", temperature=1.0, turns=turns)
    (trajectory,) = runner.play(request)
    return trajectory, events, sampler


def scripted(chat, *answers):
    return [tiny.sampled(chat, tiny.answer(answer)) for answer in answers]


def position_of(chat, number, **rollout):
    """A recording, and the position before one of its turns."""
    responses = scripted(chat, *ANSWERS)
    recorded, *_ = play(chat, responses, **rollout)
    return recorded, Position(recorded.turns[:number], responses[:number], recorded.turns[number].state)


@pytest.mark.parametrize("rollout", [{}, {"context_turns": 2}], ids=["whole dialogue", "window"])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_the_dialogue_continues_as_if_it_had_been_played_at_once(chat, number, rollout):
    recorded, position = position_of(chat, number, **rollout)
    trajectory, events, sampler = play(chat, scripted(chat, *ANSWERS[number:]), position, **rollout)
    assert trajectory == recorded
    assert [type(event) for event in events] == [GroupStarted, *[Turn] * (4 - number), TrajectoryFinished]
    assert sampler.prompts[0][0] == recorded.prompts.get(number) or (
        sampler.prompts[0][0] == recorded.ids[: recorded.turn_of.index(number)]
    )


def test_a_begun_response_is_continued_and_recorded_whole(chat):
    recorded, position = position_of(chat, 1)
    beginning = tiny.sampled(chat, "hm</think><answer>", ended=False)
    rest = tiny.sampled(chat, "Up</answer>")
    trajectory, events, sampler = play(
        chat, [rest, *scripted(chat, "Left", "Left")], replace(position, beginning=beginning)
    )
    begun = len(beginning.ids)
    assert sampler.prompts[0][0] == [*recorded.ids[: recorded.turn_of.index(1)], *beginning.ids]
    assert sampler.prompts[0][1][:1] != beginning.ids[:1], "only one response is begun"
    assert trajectory.response(1) == [*beginning.ids, *rest.ids]
    first = next(event for event in events if isinstance(event, Turn))
    assert (first.turn, first.thought, first.answer, first.tokens) == (1, "hm", "Up", begun + len(rest.ids))
    start = trajectory.turn_of.index(1)
    assert trajectory.logprobs[start : start + begun] == beginning.logprobs


def test_a_complete_response_is_played_and_its_turn_reported(chat):
    _, position = position_of(chat, 1)
    given = replace(position, beginning=tiny.sampled(chat, tiny.answer("Right")), is_complete=True)
    trajectory, events, _ = play(chat, scripted(chat, "Left", "Left"), given)
    assert [event.turn for event in events if isinstance(event, Turn)] == [1, 2, 3]
    assert [turn.answer for turn in trajectory.turns] == ["Left", "Right", "Left", "Left"]


def test_a_limit_of_turns_interrupts(chat):
    _, position = position_of(chat, 1)
    trajectory, events, _ = play(chat, scripted(chat, "Up"), position, turns=1)
    assert (len(trajectory.turns), trajectory.end, events[-1].end) == (2, "interrupted", "interrupted")


def test_another_message_is_read(chat):
    recorded, position = position_of(chat, 2)
    trajectory, _, sampler = play(chat, scripted(chat, "Up", "Up"), replace(position, changed_state="Nothing."))
    assert trajectory.turns[2].state == "Nothing."
    assert trajectory.turns[2].board == recorded.turns[2].board
    assert "Nothing." in chat.tokenizer.decode(sampler.prompts[0][0])
    first, _, sampler = play(chat, scripted(chat, *ANSWERS), replace(position_of(chat, 0)[1], changed_state="Nothing."))
    assert first.task in chat.tokenizer.decode(sampler.prompts[0][0])
    assert first.turns[0].state == "Nothing."


def test_what_differs_is_named_with_its_turn(chat):
    recorded, position = position_of(chat, 3)
    changed = recorded.turns[1].model_copy(update={"state": "elsewhere"})
    with pytest.raises(PositionError, match="at turn 2 the environment differs from the recording"):
        play(chat, [], replace(position, turns=[position.turns[0], changed, position.turns[2]]))
    with pytest.raises(PositionError, match="at turn 4 the environment differs from the recording"):
        play(chat, [], replace(position, state="elsewhere"))
    other = [*scripted(chat, "Down"), *position.responses[1:]]
    with pytest.raises(PositionError, match="the response of turn 1 cannot be written"):
        play(chat, [], replace(position, responses=other))
    with pytest.raises(PositionError, match="at turn 3 the episode is over"):
        play(chat, [], position, max_turns=2)


def test_a_beginning_that_does_not_fit_is_refused_or_ends_the_branch(chat):
    recorded, position = position_of(chat, 1)
    with pytest.raises(PositionError, match="a response at most 40"):
        play(chat, [], replace(position, beginning=tiny.sampled(chat, "so " * 50)))
    beginning = tiny.sampled(chat, "so " * 10, ended=False)
    context = recorded.turn_of.index(1) + 40 + 5
    trajectory, events, _ = play(chat, [], replace(position, beginning=beginning), context=context)
    assert CONTEXT_FULL in trajectory.error
    assert isinstance(events[-1], TrajectoryFinished)
