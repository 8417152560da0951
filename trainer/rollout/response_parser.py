"""Parser of sampled responses: thought, answer and actions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, THINK_END

ACTION_SEPARATOR = "||"
_REMOVED = (THINK, THINK_END, ANSWER, ANSWER_END, "<|im_start|>", "<|im_end|>")
_MAX_TAG_LENGTH = max(map(len, _REMOVED))
_THOUGHT_TO_ANSWER = re.compile(r"</think>\s*<answer>")


@dataclass(frozen=True)
class ParsedResponse:
    """Content of a response.

    Attributes:
        text: the response in canonical form, with at most `max_actions` actions.
        actions: the first `max_actions` actions in the original wording, whether or not they exist.
        structured: whether all tags are present.
        problem: reason why the response has no actions; None if it has some.
    """

    text: str
    thought: str
    answer: str
    actions: tuple[str, ...]
    structured: bool
    problem: str | None


def parse_response(response: str, *, think: bool, max_actions: int) -> ParsedResponse:
    """Parse thought and actions of a sampled response. Never raises: an unreadable response yields a `problem`.

    Args:
        response: the decoded sampled tokens, without the forced opening tag.
        think: whether the prompt ended with `<think>` (otherwise `<answer>`).
        max_actions: further actions are dropped first.
    """
    full = (THINK if think else ANSWER) + response
    parts = _split(response, think)
    if parts is None:
        return ParsedResponse(
            text=full,
            thought=clean(response.split(THINK_END)[0]),
            answer="",
            actions=(),
            structured=False,
            problem=_structure_problem(full, think),
        )
    thought, answer = map(clean, parts)
    actions = [part for part in (piece.strip() for piece in answer.split(ACTION_SEPARATOR)) if part]
    if len(actions) > max_actions:
        actions = actions[:max_actions]
        answer = f" {ACTION_SEPARATOR} ".join(actions)
    opening = f"{THINK}{thought}{THINK_END}" if think else ""
    return ParsedResponse(
        text=f"{opening}{ANSWER}{answer}{ANSWER_END}",
        thought=thought,
        answer=answer,
        actions=tuple(actions),
        structured=True,
        problem=None if actions else "the answer names no action",
    )


def _split(response: str, think: bool) -> tuple[str, str] | None:
    """Return thought and answer verbatim; None if tags are missing. One pass, however often tags are repeated."""
    thought, start = "", 0
    if think:
        border = _THOUGHT_TO_ANSWER.search(response)
        if border is None:
            return None
        thought, start = response[: border.start()], border.end()
    end = response.find(ANSWER_END, start)
    return None if end < 0 else (thought, response[start:end])


def clean(text: str) -> str:
    """Remove tags and surrounding whitespace."""
    for token in _REMOVED:
        text = text.replace(token, "")
    if any(token in text for token in _REMOVED):
        text = _without_composed_tags(text)
    return text.strip()


def _without_composed_tags(text: str) -> str:
    """Remove tags repeatedly, since a removal can join the pieces of another tag: <thi<x>nk>."""
    characters: list[str] = []
    for character in text:
        characters.append(character)
        if character == ">":
            end = "".join(characters[-_MAX_TAG_LENGTH:])
            closed = next((token for token in _REMOVED if end.endswith(token)), "")
            del characters[len(characters) - len(closed) :]
    return "".join(characters)


def _structure_problem(full: str, think: bool) -> str:
    if think and THINK_END not in full:
        return "the thought is not closed with </think>"
    if ANSWER not in full:
        return "there is no <answer>"
    if ANSWER_END not in full:
        return "the answer is not closed with </answer>"
    return "<answer> does not follow </think>"
