"""Hosted model section of RunConfig: models behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from envs.text_roles import TextRole
from trainer.config.base import Section, base_url, setting
from trainer.config.conditions import NoEffect, is_empty, is_none_of

RESERVED_PARAMETERS = ("model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "tools")
"""Fields of a request that `hosted.extra_body` may not set."""
MAX_EXTRA_FIELDS, MAX_EXTRA_BYTES = 20, 4096
"""Limits of `hosted.extra_body`, as JSON."""
CONTINUE = "continue_final_message"
"""Field of `hosted.extra_body` with which a server continues the last message, the opening tag of the response."""
MAX_PRICE = 1_000_000
"""Maximum of each of the prices."""
DECISIVE = ("url", "model", "extra_body")
"""Settings that may affect the result of an evaluation; the others affect only cost and speed."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class HostedConfig(Section):
    """Model behind an OpenAI-compatible endpoint, for evaluation runs; off while `url` is empty."""

    no_effect = (
        NoEffect((is_none_of("kind", ("evaluate",)),), "a hosted model can only be evaluated, not trained"),
        NoEffect((is_empty("hosted.url"),), "hosted.url is empty, so no hosted model is used", except_for=("url",)),
    )

    url: Annotated[str, TextRole.URL] = setting(
        "", "Base URL of the endpoint, as in https://api.openai.com/v1; empty = no hosted model."
    )
    model: Annotated[str, TextRole.PLAIN] = setting("", "Name of the model at the endpoint.")
    api_key_env: Annotated[str, TextRole.VARIABLE] = setting(
        "OPENAI_API_KEY",
        "Environment variable with the API key, on the machine of the run; the key itself is never stored. Empty = no "
        "key is sent.",
    )
    concurrency: int = setting(8, "Maximum number of concurrent requests.", unit="requests", gt=0, le=512)
    extra_body: Annotated[dict[str, Any], TextRole.PLAIN] = setting(
        {},
        "Further fields of each request, as in reasoning_effort=low, top_k=40; at most 20, and 4 KiB as JSON. With "
        "continue_final_message=true each response begins with its opening tag, as for policies trained here: for "
        "servers that continue the last message, such as vLLM.",
    )
    price_per_million: list[float] = setting(
        [],
        "Prices of a million prompt tokens and of a million completion tokens, as in 0.15, 0.6; empty = unknown.",
        added=True,
    )
    max_cost: float = setting(
        0.0, "Maximum cost of the run, in the unit of the prices; 0 = no limit. Needs prices.", ge=0, le=1e9
    )

    @field_validator("url")
    @classmethod
    def check_url(cls, value: str) -> str:
        """Require the base URL of an endpoint; credentials, a query and a trailing slash are not part of it."""
        if not value.strip():
            return ""
        url = base_url(
            value, "https://api.openai.com/v1", "set the key in the variable named by hosted.api_key_env instead"
        )
        if url.endswith("/chat/completions"):
            raise ValueError("must be the endpoint's base URL, without /chat/completions")
        return url

    @field_validator("api_key_env")
    @classmethod
    def check_variable(cls, value: str) -> str:
        """Require the name of an environment variable, or nothing."""
        value = value.strip()
        if value and not _VARIABLE.fullmatch(value):
            raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY; not the key itself")
        return value

    @field_validator("extra_body", mode="before")
    @classmethod
    def parse_texts(cls, value: Any) -> Any:
        """Parse texts that are valid JSON, since forms send only texts."""
        if not isinstance(value, Mapping):
            return value
        if reserved := sorted(set(value) & set(RESERVED_PARAMETERS)):
            raise ValueError(f"{reserved[0]} cannot be set in hosted.extra_body: other settings determine it")
        fields = {name: _parsed(item) for name, item in value.items()}
        if len(fields) > MAX_EXTRA_FIELDS:
            raise ValueError(f"has {len(fields)} fields, and a request takes at most {MAX_EXTRA_FIELDS} further ones")
        try:
            size = len(json.dumps(fields).encode())
        except (TypeError, ValueError, RecursionError):
            raise ValueError("holds a value that JSON does not have") from None
        if size > MAX_EXTRA_BYTES:
            raise ValueError(f"has {size:,} bytes as JSON; at most {MAX_EXTRA_BYTES:,} are sent with each request")
        return fields

    @field_validator("price_per_million")
    @classmethod
    def check_prices(cls, value: list[float]) -> list[float]:
        """Require two prices, or none."""
        if value and not (len(value) == 2 and all(0 <= price <= MAX_PRICE for price in value)):
            raise ValueError(
                f"must be two numbers from 0 to {MAX_PRICE:,}, the prices of prompt and completion tokens, or empty"
            )
        return value

    @model_validator(mode="after")
    def check_model_and_prices(self) -> Self:
        """Require a model for an endpoint, and prices for a cost limit."""
        if self.url and not self.model.strip():
            raise ValueError("hosted.model is missing: name the model to request from hosted.url")
        if self.max_cost and not any(self.prices):
            raise ValueError("hosted.max_cost needs prices: set hosted.price_per_million")
        return self

    @property
    def prefills(self) -> bool:
        """True if the prompt includes the opening tag of the response."""
        return self.extra_body.get(CONTINUE) is True

    @property
    def prices(self) -> tuple[float, float]:
        """Prices of a million prompt tokens and of a million completion tokens; 0 = unknown."""
        prompt, completion = self.price_per_million or (0.0, 0.0)
        return prompt, completion

    @property
    def host(self) -> str:
        """Host and port of the endpoint."""
        return urlsplit(self.url).netloc


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
