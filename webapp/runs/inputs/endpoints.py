"""Servers that runs of this site may use: hosted models with key variables, vLLM, OpenEnv and MCP servers.

Without these lists of the operator, users could make a worker send its secrets anywhere or reach hosts of its private
network. The trainer's command line has no such restriction.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings

from trainer.config.hosted import HostedConfig

HOSTED = "ECHOSCOPE_HOSTED_URLS"
ENGINES = "ECHOSCOPE_ENGINE_URLS"
OPENENV = "ECHOSCOPE_OPENENV_URLS"
MCP = "ECHOSCOPE_MCP_URLS"
MCP_COMMANDS = "ECHOSCOPE_MCP_COMMANDS"
_LIST_OF = {"ToolMCP": MCP}
"""Environment → variable that lists the servers to which it may connect; OPENENV for all others."""


def hosted_problem(hosted: HostedConfig) -> tuple[str, str] | None:
    """Return (field, reason why this site does not run hosted models so); None if it does."""
    if not hosted.url:
        return None
    allowed = hosted_endpoints()
    if _normalised(hosted.url) not in allowed:
        return "hosted.url", _refusal(hosted.url, allowed, f"{HOSTED}={hosted.url}=NAME_OF_THE_KEYS_VARIABLE")
    variable = allowed[_normalised(hosted.url)]
    if hosted.api_key_env != variable:
        required = f"must be {variable}" if variable else "must be empty"
        return "hosted.api_key_env", f"{required} for {hosted.url}, as set by the operator in {HOSTED}"
    return None


def engine_problem(url: str) -> str:
    """Return the reason why runs of this site may not use a vLLM server; empty if they may."""
    allowed = engine_servers()
    return "" if _normalised(url) in allowed else _refusal(url, allowed, f"{ENGINES}={url}")


def environment_problem(environment: str, url: str) -> str:
    """Return the reason why an environment of this site may not connect to an address; empty if it may.

    Each protocol has its list: a server may be safe to play on, but not to run tools that change something.
    """
    variable = _LIST_OF.get(environment, OPENENV)
    allowed = {_normalised(entry) for entry in getattr(settings, variable)}
    return "" if _normalised(url) in allowed else _refusal(url, allowed, f"{variable}={url}")


def command_problem(command: str) -> str:
    """Return the reason why an environment of this site may not start a server by a command; empty if it may.

    A command is listed as a whole, with its arguments, in any spelling that a shell would split into the same words.
    """
    allowed = settings.ECHOSCOPE_MCP_COMMANDS
    if _split(command) in map(_split, allowed):
        return ""
    return _refusal(command, allowed, f"{MCP_COMMANDS}={command}", separator="; ")


def hosted_endpoints() -> dict[str, str]:
    """Return {URL of an allowed endpoint: variable of its key}; the variable is empty for endpoints without a key.

    Format: `https://api.openai.com/v1=OPENAI_API_KEY, http://models:8000/v1`.
    """
    allowed = {}
    for entry in settings.ECHOSCOPE_HOSTED_URLS:
        url, _, variable = entry.partition("=")
        allowed[_normalised(url.strip())] = variable.strip()
    return allowed


def engine_servers() -> set[str]:
    """Return the URLs of the allowed vLLM servers. Format: `http://gpu1:8000, http://gpu2:8000`."""
    return {_normalised(entry.rstrip("/").removesuffix("/v1")) for entry in settings.ECHOSCOPE_ENGINE_URLS}


def _refusal(named: str, allowed: Iterable[str], variable: str, separator: str = ", ") -> str:
    listed = separator.join(sorted(allowed))
    choice = f" Allowed: {listed}." if listed else ""
    return f"runs of this site may not use {named}.{choice} Its operator can allow it with {variable}"


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an operator's entry with an open quotation mark allows only itself
        return [command]


def _normalised(url: str) -> str:
    parts = urlsplit(url.rstrip("/"))
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path, parts.query, parts.fragment))
