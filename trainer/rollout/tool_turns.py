"""Turns with tool calls in a model family's own format: parsing of responses, and the message with the results."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import ToolSpec
from envs.tools.call_formats import CallFormat, parse_calls
from trainer.journal.events import Turn
from trainer.policy.chat_format import ANSWER, ANSWER_END, NOT_EXECUTED, THINK, THINK_END, Role
from trainer.rollout.response_parser import ParsedResponse, clean


def parse_tool_response(
    response: str,
    *,
    think: bool,
    max_actions: int,
    call_format: CallFormat,
    tools: Sequence[ToolSpec] = (),
    reported: Sequence[str] = (),
) -> ParsedResponse:
    """Parse thought and calls, or the answer, of a sampled response. Never raises.

    After the thought, calls in the family's format are the actions; without calls, `<answer>` contains the only action.
    An answer next to calls is ignored: their results are not known yet.

    Calls that an endpoint reports separately from the text need no tags: models with such calls often hide their
    thoughts, and any text counts as the thought.

    Args:
        response: the decoded sampled tokens, without the forced opening tag.
        think: whether the prompt ended with `<think>`.
        max_actions: further calls are dropped first.
        call_format: format of the model's family.
        tools: tools of the environment.
        reported: calls reported separately from the text, as actions.
    """
    thought, closed, rest = response.partition(THINK_END) if think else ("", THINK_END, response)
    full = (THINK if think else "") + response
    if reported:
        actions = tuple(reported[:max_actions])
        return ParsedResponse(full, clean(thought), "\n".join(actions), actions, structured=True, problem=None)
    if not closed:
        return _without_actions(full, thought, "the thought is not closed with </think>")
    calls = tuple(parse_calls(rest, call_format, tools)[:max_actions])
    if calls:
        return ParsedResponse(full, clean(thought), "\n".join(calls), calls, structured=True, problem=None)
    _, opened, tail = rest.partition(ANSWER)
    answer, ended, _ = tail.partition(ANSWER_END)
    if not opened:
        return _without_actions(full, thought, "there is neither a call nor an <answer>")
    if not ended:
        return _without_actions(full, thought, "the answer is not closed with </answer>")
    answer = clean(answer)
    problem = None if answer else "the answer is empty"
    return ParsedResponse(full, clean(thought), answer, (answer,) if answer else (), structured=True, problem=problem)


def _without_actions(full: str, thought: str, problem: str) -> ParsedResponse:
    return ParsedResponse(full, clean(thought), "", (), structured=False, problem=problem)


def message_role(turn: Turn) -> Role:
    """Return the role of the message after a turn: the role of results if the turn called a tool."""
    return "tool" if any(action.call for action in turn.actions) else "user"


def earlier_results(turn: Turn) -> list[str]:
    """Return the results of a turn's calls except the last, which is the state; empty if it called no tool."""
    if message_role(turn) == "user":
        return []
    return [action.call.result if action.call else NOT_EXECUTED for action in turn.actions[:-1]]


def call_results(turn: Turn) -> str:
    """Return the numbered results of a turn with several calls; empty with fewer calls: the state is the result."""
    calls = [action.call for action in turn.actions if action.call]
    if len(calls) < 2:
        return ""
    return "\n".join(f"{number}. {call.tool}: {call.result}" for number, call in enumerate(calls, 1))
