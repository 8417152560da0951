"""Which endpoints of hosted models this site's runs may ask, and with which key: what its operator allows, no other.

Whoever launches a run could otherwise make a worker send its secrets anywhere, or reach machines that only it reaches.
Asking is the trainer's business; on the command line everything is allowed.
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
    """What keeps a run with this section from being played here: the field and a sentence. None if nothing does."""
    if not hosted.url:
        return None
    allowed = endpoints()
    if _plain(hosted.url) not in allowed:
        choice = f" This site may ask {' and '.join(sorted(allowed))}." if allowed else ""
        return "hosted.url", (
            f"runs of this site may not ask {hosted.url}.{choice} Its operator can allow more: "
            f"{SETTING}={hosted.url}=NAME_OF_THE_KEYS_VARIABLE"
        )
    variable = allowed[_plain(hosted.url)]
    if hosted.api_key_env != variable:
        wanted = f"must be {variable}" if variable else "must be empty"
        return "hosted.api_key_env", f"{wanted} for {hosted.url}: so its operator has set it in {SETTING}"
    return None


def refusal(config: Mapping[str, Any]) -> str:
    """Why a worker with these variables must not play a run of this configuration; empty if it may.

    What cannot be read is left to the trainer, which refuses it before it asks anybody.
    """
    try:
        found = problem(HostedConfig.model_validate(config.get("hosted") or {}))
    except ValidationError:
        return ""
    return f"{found[0]}: {found[1]}." if found else ""


def endpoints() -> dict[str, str]:
    """Address of each allowed endpoint → the variable of its key, empty where it is sent none.

    Listed as `https://api.openai.com/v1=OPENAI_API_KEY, http://models:8000/v1`.
    """
    found = {}
    for entry in settings.ECHOSCOPE_HOSTED_URLS:
        url, _, variable = entry.partition("=")
        found[_plain(url.strip())] = variable.strip()
    return found


def _plain(url: str) -> str:
    parts = urlsplit(url.rstrip("/"))
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path, "", ""))
