"""The section of RunConfig about models that are asked over HTTP. Only settings: asking is in trainer/hosted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from trainer.config.base import Section, setting

RESERVED_PARAMETERS = ("model", "messages", "stream", "n", "max_tokens", "max_completion_tokens")
"""Fields of a request that `hosted.extra` may not give."""
DECISIVE = ("url", "model", "without", "limit_name", "prefill", "extra")
"""Settings that an exam's result may depend on; the others say only how it is paid for and how patiently."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class HostedConfig(Section):
    """A model behind an OpenAI-compatible endpoint, for runs that only evaluate; off while `url` is empty."""

    url: str = setting("", "Root of the endpoint, as in https://api.openai.com/v1; empty = no hosted model.")
    model: str = setting("", "The model's name there.")
    key_variable: str = setting(
        "OPENAI_API_KEY",
        "Environment variable that holds the key where the run is played; the key itself is written nowhere. Empty = "
        "no key is sent.",
    )
    concurrency: int = setting(8, "Requests under way at once.", unit="requests", gt=0, le=512)
    timeout: float = setting(120.0, "Longest time of one request.", unit="seconds", gt=0, le=3600)
    retries: int = setting(6, "How often a request is made again when the endpoint is busy or away.", ge=0, le=100)
    longest_wait: float = setting(
        60.0,
        "Longest pause before a request is made again; an endpoint that asks for more ends the run.",
        unit="seconds",
        ge=0,
        le=3600,
    )
    without: list[Literal["seed", "logprobs", "temperature", "system"]] = setting(
        [],
        "What the endpoint does not know and is not sent: seed, logprobs, temperature; system puts the system message "
        "into the first user message.",
    )
    limit_name: Literal["max_tokens", "max_completion_tokens"] = setting(
        "max_tokens", "What the endpoint calls the longest response; newer OpenAI models want the second."
    )
    prefill: bool = setting(
        False,
        "Begin each response with its opening tag, which the model continues, as policies trained here are used to; "
        "for servers that continue a last message, vLLM for one.",
    )
    extra: dict[str, Any] = setting({}, "Further fields of each request, as in reasoning_effort=low, top_k=40.")
    price_in: float = setting(0.0, "Price of a million prompt tokens; 0 = unknown.", ge=0, le=1e6)
    price_out: float = setting(0.0, "Price of a million completion tokens; 0 = unknown.", ge=0, le=1e6)
    max_cost: float = setting(
        0.0, "What the run may cost in all, in the unit of the prices; 0 = no limit. Needs a price.", ge=0, le=1e9
    )

    @field_validator("url")
    @classmethod
    def an_address(cls, value: str) -> str:
        value = value.strip().rstrip("/")
        if not value:
            return ""
        try:
            parts = urlsplit(value)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            sound = False
        if not sound or not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError(f"must be an address such as https://api.openai.com/v1, not {value!r}")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold a name or a key: put the key into the variable of hosted.key_variable")
        if parts.query or parts.fragment:
            raise ValueError("must be the endpoint's root, without ? and #")
        if parts.path.endswith("/chat/completions"):
            raise ValueError("must be the endpoint's root, without /chat/completions")
        return value

    @field_validator("key_variable")
    @classmethod
    def a_name(cls, value: str) -> str:
        value = value.strip()
        if value and not _VARIABLE.fullmatch(value):
            raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY; not the key itself")
        return value

    @field_validator("extra", mode="before")
    @classmethod
    def read_texts(cls, value: Any) -> Any:
        """Forms have only texts: what reads as JSON is meant so."""
        if not isinstance(value, Mapping):
            return value
        if taken := sorted(set(value) & set(RESERVED_PARAMETERS)):
            raise ValueError(f"{taken[0]} is not for hosted.extra: other settings decide it")
        return {name: _read(given) for name, given in value.items()}

    @model_validator(mode="after")
    def consistent(self) -> Self:
        if self.url and not self.model.strip():
            raise ValueError("hosted.model is missing: name the model that hosted.url is to be asked for")
        if self.max_cost and not (self.price_in or self.price_out):
            raise ValueError("hosted.max_cost needs prices: set hosted.price_in and hosted.price_out")
        return self

    @property
    def host(self) -> str:
        """Where it is, without scheme and path."""
        return urlsplit(self.url).netloc


def _read(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given
