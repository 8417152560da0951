"""TCP ports that a trainer may connect to: of the hub, and of the servers that its run and its operator name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

HTTPS, DOMAIN = 443, 53
"""Ports of the hub and of trackers, and of name servers for long answers."""
OPENTELEMETRY = 4318
"""Port of a collector on this machine, where its exporters send to unless a variable names another one."""
_DEFAULT = {"http": 80, "ws": 80, "https": HTTPS, "wss": HTTPS, "socks4": 1080, "socks5": 1080, "socks5h": 1080}
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s,;]+", re.IGNORECASE)


def of_run(
    config: Mapping[str, Any], urls: Iterable[str], environment: Mapping[str, str], *, single: bool
) -> frozenset[int] | None:
    """Ports for a run; None for one whose processes connect to each other at ports that they choose.

    Args:
        config: of the run.
        urls: addresses that the configuration names.
        environment: of its trainer.
        single: whether the trainer is one process, and no driver of Ray actors.
    """
    if not single or (config.get("engine") or {}).get("name") == "vllm":
        return None
    ports = {HTTPS, DOMAIN, *of_variables(environment), *_ports(urls)}
    return frozenset(ports | ({OPENTELEMETRY} if "opentelemetry" in (config.get("trackers") or ()) else set()))


def of_download(environment: Mapping[str, str]) -> frozenset[int]:
    """Ports for the download of a model."""
    return frozenset({HTTPS, DOMAIN, *of_variables(environment)})


def of_variables(environment: Mapping[str, str]) -> Iterator[int]:
    """Ports of the addresses in variables: proxies, mirrors of the hub, trackers and what the operator passed on."""
    for name, value in environment.items():
        is_proxy = name.lower().endswith("_proxy") and name.lower() != "no_proxy"
        yield from _ports([f"http://{value}" if is_proxy and value and "://" not in value else value])


def _ports(texts: Iterable[str]) -> Iterator[int]:
    for text in texts:
        for url in _URL.findall(text):
            try:
                port = (parts := urlsplit(url)).port or _DEFAULT.get(parts.scheme.lower())
            except ValueError:
                continue  # no port, or no address
            if port:
                yield port
