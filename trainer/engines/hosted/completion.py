"""Parsing of an endpoint's responses: chat completions and errors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.tools.call_formats import MAX_CALLS
from trainer.engines.hosted.costs import Usage

_MAX_MESSAGE_LENGTH = 300
_CONTEXT_ERRORS = (
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
class ReportedCall:
    """A tool call as the endpoint reports it, separately from the text.

    Attributes:
        id: the call's id, which the message with the result repeats.
        name: name of the tool; empty if the endpoint's call has none.
        arguments: arguments as the model wrote them: a JSON object, unless the model made a mistake.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Completion:
    """One response.

    Attributes:
        text: the content, as later prompts repeat it.
        tokens: bytes of each sampled token; together they are the text. None if the endpoint does not report them.
        logprobs: log-probabilities of those tokens, nats, as reported.
        ended: whether the model ended it (otherwise it was cut at the limit).
        usage: tokens as counted by the endpoint.
        context_exceeded: there is no response, because the dialogue no longer fits into the model's context.
        calls: tool calls in order; at most `MAX_CALLS`.
    """

    text: str
    tokens: tuple[bytes, ...] | None
    logprobs: tuple[float, ...]
    ended: bool
    usage: Usage
    context_exceeded: bool = False
    calls: tuple[ReportedCall, ...] = ()


class NotACompletionError(ValueError):
    """A response that is not a chat completion. The message says what is wrong with it."""


CONTEXT_EXCEEDED = Completion("", None, (), True, Usage(), context_exceeded=True)


def parse_completion(data: bytes) -> Completion:
    """Parse a chat completion.

    Raises:
        NotACompletionError: the data is not a completion, or reports no usage.
    """
    body = _json(data)
    if not isinstance(body, dict):
        raise NotACompletionError("the response is no JSON object")
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise NotACompletionError("the response has no choices[0].message") from None
    calls = _calls(message.get("tool_calls"))
    if content is None:
        content = message.get("refusal") or ""
    if not isinstance(content, str):
        raise NotACompletionError("the response's content is no text")
    encoded = content.encode("utf-8", "replace")
    tokens, logprobs = _tokens(choice.get("logprobs"), encoded)
    return Completion(
        text=encoded.decode(),
        tokens=tokens,
        logprobs=logprobs,
        ended=choice.get("finish_reason") != "length",
        usage=_usage(body.get("usage")),
        calls=calls,
    )


def _calls(listed: Any) -> tuple[ReportedCall, ...]:
    """Return the calls of a message. Malformed calls are kept verbatim, so that the model sees the mistake."""
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise NotACompletionError("the response's tool_calls are no list")
    return tuple(_call(entry, number) for number, entry in enumerate(listed[:MAX_CALLS], 1))


def _call(entry: Any, number: int) -> ReportedCall:
    """Parse a call; a call without an id gets a made-up one, which is sent back to the server."""
    fields = entry if isinstance(entry, dict) else {}
    function = fields.get("function")
    identifier = _storable(fields["id"]) if isinstance(fields.get("id"), str) and fields["id"] else f"call_{number}"
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return ReportedCall(identifier, "", _storable(json.dumps(entry, ensure_ascii=False)))
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):  # some servers send parsed arguments
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ReportedCall(identifier, _storable(function["name"]), _storable(arguments))


def _storable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _usage(usage: Any) -> Usage:
    prompt, completion = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    if prompt is None or completion is None:
        raise NotACompletionError("the response reports no usage, so that tokens cannot be counted")
    return Usage(prompt, completion, _count(usage.get("prompt_tokens_details"), "cached_tokens") or 0)


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _tokens(logprobs: Any, text: bytes) -> tuple[tuple[bytes, ...] | None, tuple[float, ...]]:
    """Return bytes and log-probabilities of the tokens of the text, without later tokens (the end token).

    None if the tokens do not spell the text.
    """
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(entries, list):
        return None, ()
    tokens, values, rest = [], [], text
    for entry in entries:
        if not rest:
            break
        token, value = _token(entry)
        if not token or value is None or not rest.startswith(token):
            return None, ()
        rest = rest[len(token) :]
        tokens.append(token)
        values.append(value)
    return (None, ()) if rest else (tuple(tokens), tuple(values))


def _token(entry: Any) -> tuple[bytes, float | None]:
    if not isinstance(entry, dict):
        return b"", None
    listed, logprob = entry.get("bytes"), entry.get("logprob")
    try:
        token = bytes(listed) if isinstance(listed, list) else str(entry.get("token") or "").encode("utf-8", "replace")
    except (TypeError, ValueError):  # numbers that are not bytes
        return b"", None
    if not isinstance(logprob, int | float) or isinstance(logprob, bool) or not math.isfinite(logprob):
        return token, None
    return token, float(logprob)


def error_message(data: bytes, secret: str = "") -> str:
    """Return the message of an error response, or the start of its body, with the secret masked."""
    body = _json(data)
    error = body.get("error", body) if isinstance(body, dict) else body
    for key in ("message", "detail"):
        if isinstance(error, Mapping) and error.get(key):
            error = error[key]
    text = error if isinstance(error, str) else data.decode("utf-8", "replace")
    text = " ".join(text.replace(secret, "…").split() if secret else text.split()).replace("\0", "")
    return text[:_MAX_MESSAGE_LENGTH] + ("…" if len(text) > _MAX_MESSAGE_LENGTH else "")


def error_code(data: bytes) -> str:
    """Return code and type of an error response, as in insufficient_quota; empty without them."""
    body = _json(data)
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, Mapping):
        return ""
    return " ".join(str(error[name]) for name in ("code", "type") if error.get(name))


def inner_status(data: bytes) -> int | None:
    """Return the status of an error that arrived with HTTP status 200 (gateways do that); None without one."""
    body = _json(data)
    if not isinstance(body, dict) or not isinstance(body.get("error"), Mapping) or body.get("choices"):
        return None
    status = body["error"].get("code")
    return status if isinstance(status, int) and 400 <= status < 600 else 500


def is_context_exceeded(status: int, data: bytes) -> bool:
    """True if an error says that the dialogue does not fit into the model's context."""
    text = (error_code(data) + " " + error_message(data)).lower()
    return status in (400, 413, 422) and any(part in text for part in _CONTEXT_ERRORS)
