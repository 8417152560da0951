"""Endpoints of hosted models that runs of this site may use, with their key variables, as allowed by the operator.

Without this check, users could make a worker send its secrets anywhere or reach hosts of its private network. The
trainer's command line has no such restriction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from pydantic import ValidationError

from trainer.config.hosted import HostedConfig

SETTING = "ECHOSCOPE_HOSTED_URLS"


def problem(hosted: HostedConfig) -> tuple[str, str] | None:
    """Reason why this site does not run the section, as (field, message); None if it does."""
    if not hosted.url:
        return None
    allowed = endpoints()
    if _normalised(hosted.url) not in allowed:
        choice = f" Allowed: {', '.join(sorted(allowed))}." if allowed else ""
        return "hosted.url", (
            f"runs of this site may not use {hosted.url}.{choice} Its operator can allow it with "
            f"{SETTING}={hosted.url}=NAME_OF_THE_KEYS_VARIABLE"
        )
    variable = allowed[_normalised(hosted.url)]
    if hosted.api_key_env != variable:
        required = f"must be {variable}" if variable else "must be empty"
        return "hosted.api_key_env", f"{required} for {hosted.url}, as set by the operator in {SETTING}"
    return None


def refusal(config: Mapping[str, Any]) -> str:
    """Reason why a worker with these variables must not run this configuration; empty if it may.

    Invalid sections are left to the trainer, which rejects them before any request.
    """
    try:
        reason = problem(HostedConfig.model_validate(config.get("hosted") or {}))
    except ValidationError:
        return ""
    return f"{reason[0]}: {reason[1]}." if reason else ""


def endpoints() -> dict[str, str]:
    """URL of each allowed endpoint → variable of its key, empty for endpoints without a key.

    Format: `https://api.openai.com/v1=OPENAI_API_KEY, http://models:8000/v1`.
    """
    allowed = {}
    for entry in settings.ECHOSCOPE_HOSTED_URLS:
        url, _, variable = entry.partition("=")
        allowed[_normalised(url.strip())] = variable.strip()
    return allowed


def _normalised(url: str) -> str:
    parts = urlsplit(url.rstrip("/"))
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path, "", ""))
