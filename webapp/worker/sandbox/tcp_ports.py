"""TCP ports that a trainer may connect to: ports of the hub, and of servers that its run or its operator name."""

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
    """Return the ports for a run; None for a run whose processes connect to each other at ports that they choose.

    Args:
        config: configuration of the run.
        urls: addresses that the configuration names.
        environment: environment variables of its trainer.
        single: True if the trainer is one process and not a driver of Ray actors.
    """
    if not single or (config.get("engine") or {}).get("name") == "vllm":
        return None
    ports = {HTTPS, DOMAIN, *of_variables(environment), *_ports(urls)}
    return frozenset(ports | ({OPENTELEMETRY} if "opentelemetry" in (config.get("trackers") or ()) else set()))


def of_download(environment: Mapping[str, str]) -> frozenset[int]:
    """Return the ports for the download of a model."""
    return frozenset({HTTPS, DOMAIN, *of_variables(environment)})


def of_variables(environment: Mapping[str, str]) -> Iterator[int]:
    """Yield the ports of addresses in variables: proxies, mirrors of the hub, trackers, the operator's additions."""
    for name, value in environment.items():
        is_proxy = name.lower().endswith("_proxy") and name.lower() != "no_proxy"
        yield from _ports([f"http://{value}" if is_proxy and value and "://" not in value else value])


def _ports(texts: Iterable[str]) -> Iterator[int]:
    for text in texts:
        for url in _URL.findall(text):
            try:
                port = (parts := urlsplit(url)).port or _DEFAULT.get(parts.scheme.lower())
            except ValueError:
                continue  # no port, or not an address
            if port:
                yield port
