"""Requests without the parameters that an endpoint rejects."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from typing import Any

from trainer.engines.hosted.chat import Message

Body = Mapping[str, Any]


def _with_newer_limit(body: Body) -> Body:
    """Rename the maximum response length as newer OpenAI models require."""
    if "max_tokens" not in body:
        return body
    others = {name: value for name, value in body.items() if name != "max_tokens"}
    return others | {"max_completion_tokens": body["max_tokens"]}


def _without(parameter: str) -> Callable[[Body], Body]:
    return lambda body: {name: value for name, value in body.items() if name != parameter}


def _with_merged_system(body: Body) -> Body:
    """Merge the system message into the first user message."""
    messages: list[Message] = body.get("messages", [])
    if len(messages) < 2 or messages[0]["role"] != "system":
        return body
    first: Message = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
    return {**body, "messages": [first, *messages[2:]]}


_CHANGES: Mapping[str, tuple[Callable[[Body], Body], str]] = {
    "max_completion_tokens": (_with_newer_limit, "max_completion_tokens takes the place of max_tokens"),
    "logprobs": (_without("logprobs"), "no log-probabilities are requested"),
    "seed": (_without("seed"), "no seed is sent, so that its responses cannot be repeated"),
    "temperature": (_without("temperature"), "no temperature is sent, so that it samples at its own"),
    "system": (_with_merged_system, "the system message is sent within the first user message"),
}
"""Key word of an error message → change of the request, and the clause that describes it."""


class RequestAdaptation:
    """Changes of requests in response to an endpoint's rejections.

    Args:
        fixed: parameters set by the user, which are never omitted.
    Attributes:
        notices: clauses about changes that were not reported to the user yet.
    """

    def __init__(self, fixed: Body) -> None:
        self.fixed = fixed
        self.notices: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._words: list[str] = []

    def adapted(self, body: Body) -> Body:
        """Apply all changes so far to a request."""
        for word in self._words:
            body = _CHANGES[word][0](body)
        return body

    def learn(self, status: int, message: str, sent: Body) -> bool:
        """Adapt to a rejection. Returns whether another attempt is worthwhile, because a change of `sent` helps."""
        if status not in (400, 422) or ("tools" in sent and "tool" in message.lower()):
            return False
        for word, (change, clause) in _CHANGES.items():
            if word in message and word not in self.fixed and change(sent) != sent:
                if word not in self._words:
                    self._words.append(word)
                    self.notices.put(clause)
                return True
        return False
