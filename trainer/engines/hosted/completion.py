"""What an endpoint says, read: a chat completion as text, tokens and usage, a refusal in words. Nothing is sent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer.engines.hosted.costs import Usage

_LONGEST = 300
_FULL = (
    "context_length_exceeded",
    "context length",
    "context window",
    "maximum context",
    "too many tokens",
    "prompt is too long",
    "exceed_context_size",
    "exceeds the available context",
)


@dataclass(frozen=True)
class Completion:
    """One response.

    Attributes:
        text: as it is to be shown to the model again.
        pieces: what each sampled token spells; together the text. None where the endpoint does not tell.
        logprobs: log-probabilities of those tokens, nats, as the endpoint reports them.
        ended: whether the model ended it (else it was cut at the limit).
        full: the dialogue no longer fits into the model's context, and there is no response.
    """

    text: str
    pieces: tuple[bytes, ...] | None
    logprobs: tuple[float, ...]
    ended: bool
    usage: Usage
    full: bool = False


class NotACompletionError(ValueError):
    """An answer that is no chat completion. The message says what is wrong with it."""


CONTEXT_EXCEEDED = Completion("", None, (), True, Usage(), full=True)


def parse_completion(data: bytes) -> Completion:
    """A chat completion.

    Raises:
        NoCompletion: it is none, or one that reports no usage.
    """
    told = _json(data)
    if not isinstance(told, dict):
        raise NotACompletionError("the answer is no JSON object")
    try:
        choice = told["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise NotACompletionError("the answer has no choices[0].message") from None
    if content is None:
        content = message.get("refusal") or ""
    if not isinstance(content, str):
        raise NotACompletionError("the answer's content is no text")
    spelt = content.encode("utf-8", "replace")
    pieces, logprobs = _tokens(choice.get("logprobs"), spelt)
    return Completion(
        text=spelt.decode(),
        pieces=pieces,
        logprobs=logprobs,
        ended=choice.get("finish_reason") != "length",
        usage=_usage(told.get("usage")),
    )


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _usage(told: Any) -> Usage:
    prompt, completion = (_count(told, name) for name in ("prompt_tokens", "completion_tokens"))
    if prompt is None or completion is None:
        raise NotACompletionError("the answer reports no usage, so that tokens cannot be counted")
    return Usage(prompt, completion, _count(told.get("prompt_tokens_details"), "cached_tokens") or 0)


def _count(told: Any, name: str) -> int | None:
    value = told.get(name) if isinstance(told, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _tokens(told: Any, spelt: bytes) -> tuple[tuple[bytes, ...] | None, tuple[float, ...]]:
    """The tokens that spell the text. Those behind it (the end token) are left out; None if they spell another one."""
    listed = told.get("content") if isinstance(told, dict) else None
    if not isinstance(listed, list):
        return None, ()
    pieces, logprobs, left = [], [], spelt
    for token in listed:
        if not left:
            break
        piece, logprob = _token(token)
        if not piece or logprob is None or not left.startswith(piece):
            return None, ()
        left = left[len(piece) :]
        pieces.append(piece)
        logprobs.append(logprob)
    return (None, ()) if left else (tuple(pieces), tuple(logprobs))


def _token(told: Any) -> tuple[bytes, float | None]:
    if not isinstance(told, dict):
        return b"", None
    spelt, logprob = told.get("bytes"), told.get("logprob")
    try:
        piece = bytes(spelt) if isinstance(spelt, list) else str(told.get("token") or "").encode("utf-8", "replace")
    except (TypeError, ValueError):  # numbers that are no bytes
        return b"", None
    if not isinstance(logprob, int | float) or isinstance(logprob, bool) or not math.isfinite(logprob):
        return piece, None
    return piece, float(logprob)


def error_message(data: bytes, secret: str = "") -> str:
    """What a refusal says, for people: its message, or the beginning of its body; the secret never."""
    told = _json(data)
    error = told.get("error", told) if isinstance(told, dict) else told
    for place in ("message", "detail"):
        if isinstance(error, Mapping) and error.get(place):
            error = error[place]
    text = error if isinstance(error, str) else data.decode("utf-8", "replace")
    text = " ".join(text.replace(secret, "…").split() if secret else text.split()).replace("\0", "")
    return text[:_LONGEST] + ("…" if len(text) > _LONGEST else "")


def error_code(data: bytes) -> str:
    """The refusal's own code or type, as in insufficient_quota; empty where there is none."""
    told = _json(data)
    error = told.get("error") if isinstance(told, dict) else None
    if not isinstance(error, Mapping):
        return ""
    return " ".join(str(error[name]) for name in ("code", "type") if error.get(name))


def inner_status(data: bytes) -> int | None:
    """The status of a refusal that came as if it were an answer (gateways do that); None where there is none."""
    told = _json(data)
    if not isinstance(told, dict) or not isinstance(told.get("error"), Mapping) or told.get("choices"):
        return None
    status = told["error"].get("code")
    return status if isinstance(status, int) and 400 <= status < 600 else 500


def is_context_exceeded(status: int, data: bytes) -> bool:
    """Whether a refusal says that the dialogue does not fit into the model's context."""
    text = (error_code(data) + " " + error_message(data)).lower()
    return status in (400, 413, 422) and any(sign in text for sign in _FULL)
