"""Rebuilding of recorded dialogues: prompts from the recorded messages, responses from ids or from their text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trainer.journal.events import Turn
from trainer.policy.chat_format import ANSWER_END, ChatFormat
from trainer.rollout.tool_turns import message_role
from trainer.rollout.trajectory import Trajectory

CONTEXT_FULL = "filled the policy's context"
"""Words of an error that is no failure of the environment."""
Response = tuple[Sequence[int], Sequence[float]]
"""Ids of a response, and the sampler's log-probabilities in nats."""


def rebuild_dialogue(
    trajectory: Trajectory, responses: Sequence[Response], task: str, chat: ChatFormat, context_turns: int
) -> None:
    """Rebuild the tokens of a trajectory as the rollout recorded them.

    Args:
        trajectory: has its turns, and no tokens.
        responses: one for each turn.
        task: part of the first message before the first state.
        chat: frames the messages; bound to the environment's tools.
        context_turns: number of most recent turns in the prompt; 0 for all.
    """
    trajectory.task = task
    for index, (turn, (ids, logprobs)) in enumerate(zip(trajectory.turns, responses, strict=True)):
        if index == 0:
            trajectory.append_prompt(chat.opening(task + turn.state))
        else:
            role = message_role(trajectory.turns[index - 1])
            ended = chat.is_ended(trajectory.response(index - 1), role)
            trajectory.append_prompt(chat.between(turn.state, ended=ended, role=role))
        first = index + 1 - context_turns if context_turns and index else 0
        if first > 0:
            trajectory.prompts[index] = _window(trajectory, trajectory.turns[first : index + 1], task, chat)
        trajectory.append_response(ids, logprobs, [0.0] * len(ids), index)


def response_ids(turn: Turn, chat: ChatFormat, *, stops_at_answer: bool) -> list[int]:
    """Return the ids of a recorded response from its text, with the end token if the policy sampled one.

    The recorded number of sampled tokens tells whether it did. If the text has another number of tokens, so that the
    policy must have sampled other ids, the way in which responses end tells.

    Args:
        stops_at_answer: whether the rollout ended responses after their answer.
    """
    ids = chat.encode_response(turn.response)
    if turn.tokens in (len(ids), len(ids) + 1):
        ended = turn.tokens > len(ids)
    else:
        ended = not turn.truncated and not (stops_at_answer and ANSWER_END in turn.response)
    return [*ids, chat.end_id(message_role(turn))] if ended else ids


def _window(trajectory: Trajectory, turns: Sequence[Turn], task: str, chat: ChatFormat) -> list[int]:
    """Return the prompt of the last of these turns, with only these turns in the window."""
    ids = chat.opening(task + turns[0].state)
    for turn, following in pairwise(turns):
        response, role = trajectory.response(turn.turn), message_role(turn)
        ids += response
        ids += chat.between(following.state, ended=chat.is_ended(response, role), role=role)
    return ids
