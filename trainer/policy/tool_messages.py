"""Messages with tool calls and with their results, in the form that a chat template accepts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from envs.base import ToolSpec
from envs.tools.call_formats import CallFormat, candidate_formats, fitting_format, render_calls
from envs.tools.calls import ToolCall

Message = dict[str, Any]
Render = Callable[[list[Message]], str | None]
"""Renders a dialogue; None if the template refuses it."""

CALL_MARK, RESULT_MARK, _QUESTION = "TOOL-CALL-HERE", "TOOL-RESULT-HERE", "QUESTION-HERE"
_CALL_ID = "call00000"  # nine letters and digits, as Mistral's templates demand
_ROLES = ("tool", "tool_response", "environment")
"""Roles of results: the role in nearly all templates first, then the roles in Granite 3.0 and OLMo 3."""
_SCHEMA = {"text": {"type": "string", "description": "A text."}, "number": {"type": "integer", "description": "One."}}
TRIAL_TOOL = ToolSpec(
    name="trial_tool",
    description="A trial.",
    parameters={"type": "object", "properties": _SCHEMA, "required": ["text"]},
)
TRIAL_CALL = ToolCall("trial_tool", {"text": CALL_MARK, "number": 7})
"""A call that a template must render so that its format reads the same call."""


@dataclass(frozen=True)
class CallSpelling:
    """Form of the message with a call that a template accepts.

    Attributes:
        arguments_as_text: whether the arguments are a JSON text, which some templates insert verbatim, instead of an
            object.
        written_in: format in which calls are written into the content, for templates that would drop them.
    """

    arguments_as_text: bool = False
    written_in: CallFormat | None = None

    def message(self, call: ToolCall) -> Message:
        """Return the assistant's message with this call."""
        if self.written_in:
            return {"role": "assistant", "content": render_calls([call], self.written_in)}
        arguments = json.dumps(call.arguments, ensure_ascii=False) if self.arguments_as_text else call.arguments
        function = {"name": call.name, "arguments": arguments}
        entry = {"id": _CALL_ID, "type": "function", "function": function}
        return {"role": "assistant", "content": "", "tool_calls": [entry]}


_SPELLINGS = CallSpelling(), CallSpelling(arguments_as_text=True)


@dataclass(frozen=True)
class ToolMessages:
    """Calls and results as a chat template renders them, determined by a trial.

    Attributes:
        spelling: form of the message with a call.
        end: text of the token after a call: the end token, a token that ends only calls, or in templates without either
            the token that begins the result.
        result_role: role of messages with results; empty if the template renders none.
    """

    spelling: CallSpelling = CallSpelling()
    end: str = ""
    result_role: str = ""

    def dialogue(self, call: ToolCall, result: str) -> list[Message]:
        """Return a question, a call and its result."""
        return [
            {"role": "user", "content": _QUESTION},
            self.spelling.message(call),
            {"role": self.result_role, "name": call.name, "tool_call_id": _CALL_ID, "content": result},
        ]

    def results(self, render: Render, tool: str, content: str) -> str:
        """Return the text from the end of a response with a call to the next response; empty if there is none.

        The template is rendered with the content itself, since some templates quote it.
        """
        if not self.result_role:
            return ""
        rendered = render(self.dialogue(ToolCall(tool, {"text": CALL_MARK}), content)) or ""
        _, _, tail = rendered.partition(CALL_MARK)
        return tail.partition(self.end)[2]


@dataclass(frozen=True)
class ToolTrial:
    """The outcome of a trial call.

    Attributes:
        messages: the template's form of calls and results.
        call_format: format that reads the template's output; `answer` if none does.
        notice: why calls are answers although the template supports tools, for the user; otherwise empty.
    """

    messages: ToolMessages
    call_format: CallFormat
    notice: str = ""


def try_calls(
    render: Render, template: str, *, start: str, end: str, specials: Sequence[str], chosen: CallFormat | None = None
) -> ToolTrial:
    """Render a call and its result by a chat template, and find the format that reads the call back.

    Args:
        render: renders the template, with the definition of TRIAL_TOOL.
        template: text of the template.
        start: text between a question and its answer.
        end: text of the end token.
        specials: texts of the tokenizer's special tokens.
        chosen: a format set by the user, which is used without a check; None = the one that fits.
    """
    marked = candidate_formats(template)
    formats = marked if chosen is None else [chosen]
    trials = [_rendered(render, spelling, start, end, specials) for spelling in _SPELLINGS]
    rendered = [trial for trial in trials if trial]
    if all(TRIAL_CALL.name not in _alone(render, spelling) for spelling in _SPELLINGS):  # the template drops calls
        written = [name for name in formats if name in marked]
        trials = [_rendered(render, CallSpelling(written_in=name), start, end, specials) for name in written]
        rendered = [trial for trial in trials if trial]
    for messages, response in rendered:
        if fitting := fitting_format(formats, response, [TRIAL_CALL], [TRIAL_TOOL]):
            return ToolTrial(messages, fitting)
    if chosen:
        return ToolTrial(rendered[0][0] if rendered else ToolMessages(), chosen)
    known = formats or "tool_calls" in template
    return ToolTrial(ToolMessages(), "answer", _notice(formats) if known else "")


def _notice(formats: Sequence[CallFormat]) -> str:
    tried = f" ({', '.join(formats)} cannot read a trial call)" if formats else ""
    return (
        f"The model's chat template writes calls of tools in a format that is not known{tried}: tools are called as "
        "answers. rollout.tool_calls can set another format."
    )


def _rendered(
    render: Render, spelling: CallSpelling, start: str, end: str, specials: Sequence[str]
) -> tuple[ToolMessages, str] | None:
    """Render a trial call; returns the template's form of calls and the response, or None if the call is missing."""
    dialogues = (ToolMessages(spelling, end, role).dialogue(TRIAL_CALL, RESULT_MARK) for role in _ROLES)
    tails = [_tail(render(dialogue)) for dialogue in dialogues]
    alone = _alone(render, spelling)
    role, tail = next(
        ((role, tail) for role, tail in zip(_ROLES, tails, strict=True) if RESULT_MARK in tail), ("", alone)
    )
    if CALL_MARK not in tail or TRIAL_CALL.name not in tail:
        return None
    end, closing = _call_end(tail, alone, start, end, specials)
    start_of_response = _common(tail, start)
    response = tail[start_of_response:closing] if closing >= 0 else tail[start_of_response:].partition(RESULT_MARK)[0]
    messages = ToolMessages(spelling, end if closing >= 0 else "", role if closing >= 0 else "")
    return messages, response


def _alone(render: Render, spelling: CallSpelling) -> str:
    """Return the text after the question in a dialogue that ends with the trial call."""
    return _tail(render(ToolMessages(spelling).dialogue(TRIAL_CALL, "")[:2]))


def _tail(rendered: str | None) -> str:
    """Return the text after the question; empty if a template refuses the dialogue."""
    return (rendered or "").partition(_QUESTION)[2]


def _call_end(tail: str, alone: str, start: str, end: str, specials: Sequence[str]) -> tuple[str, int]:
    """Return the token that ends a response with a call, and its position; −1 if there is none.

    It precedes, or begins at, the point where dialogues with and without a result diverge. It is the end token of all
    responses, unless the template ends calls with another token (gpt-oss) or with the token that begins the result
    (GLM, Gemma 4): then it is the last special token that does not begin the policy's own messages.
    """
    mark, parting = tail.index(CALL_MARK), _common(tail, alone)
    closing = tail.find(end, mark) if end else -1
    if 0 <= closing <= max(parting, mark) or parting <= mark:
        return end, closing
    others = (
        (tail.rfind(token, mark, parting + len(token)), len(token), token) for token in specials if token not in start
    )
    at, _, token = max(others, default=(-1, 0, ""))
    return (token, at) if at >= 0 else (end, closing)


def _common(first: str, second: str) -> int:
    """Return the length of the common prefix of both texts."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
