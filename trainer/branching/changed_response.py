"""Recorded responses with another thought or answer, as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, THINK_END, ChatFormat

_BORDER = re.compile(r"</think>\s*<answer>")
_TAGS = (THINK, THINK_END, ANSWER, ANSWER_END)


class ChangeError(ValueError):
    """A change is impossible. The message gives the reason."""


@dataclass(frozen=True)
class ResponseParts:
    """A response, as it is sampled behind the forced tag.

    Attributes:
        thought: with the blanks around it; empty if the policy writes no thoughts.
        border: what leads from the thought to the answer, or to tool calls.
        complete: whether the response has the border.
    """

    thought: str
    border: str
    complete: bool = True

    def with_thought(self, thought: str) -> str:
        """Return the beginning of a response with another thought, up to where its answer begins."""
        blanks = self.thought.partition(self.thought.strip()) if self.thought.strip() else ("", "", "")
        return f"{blanks[0]}{thought}{blanks[2]}{self.border}"

    @property
    def beginning(self) -> str:
        """The response up to where its answer begins."""
        return self.thought + self.border


def split_response(response: str, chat: ChatFormat) -> ResponseParts:
    """Split a recorded response; a border that it lacks is the usual one."""
    if not chat.think:
        return ResponseParts("", "")
    if border := _BORDER.search(response):
        return ResponseParts(response[: border.start()], border[0])
    thought, closed, _ = response.partition(THINK_END)
    return ResponseParts(thought, THINK_END if chat.tools else THINK_END + ANSWER, complete=bool(closed and chat.tools))


def with_answer(beginning: str, answer: str, chat: ChatFormat) -> str:
    """Return a whole response; with tools, the answer is all that follows the thought, in the policy's own format."""
    if not chat.tools:
        return f"{beginning}{answer}{ANSWER_END}"
    return f"{beginning.removesuffix(ANSWER)}{answer}"


def check_text(text: str, what: str, chat: ChatFormat) -> None:
    """Raise ChangeError for a text that would end its message, or a thought or answer that would end before its end.

    Args:
        what: what the text is: state, thought or answer.
    """
    tokens = chat.tokenizer.added_tokens_decoder
    if what == "answer" and chat.tools:  # calls may be written with special tokens
        forbidden = [tokens[number].content for number in chat.end_ids if number in tokens]
    else:
        forbidden = [token.content for token in tokens.values() if token.special]
        forbidden += [] if what == "state" else _TAGS
    if found := next((token for token in forbidden if token and token in text), None):
        raise ChangeError(f"the changed {what} contains {found}, which would end it: remove it")
