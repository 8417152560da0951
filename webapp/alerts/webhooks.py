"""Posting to addresses that people typed: only to the public internet, bounded in time and size, no redirects.

Names are resolved here and the connection goes to the very address that was checked, so that a name cannot point to a
harmless machine while it is checked and to an inner one when it is used.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import socket
import time
from dataclasses import dataclass

import httpx
from django.conf import settings

TIMEOUT = 10.0
MAX_RESPONSE_BYTES = 2000
SIGNATURE_HEADER = "Echoscope-Signature"
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class WebhookRefused(ValueError):
    """Nothing is sent there. The message says why, in words."""


@dataclass(frozen=True)
class WebhookResponse:
    """What came of a try. `answer` is the beginning of what was answered, or why nothing was."""

    ok: bool
    status: int | None
    answer: str
    milliseconds: int = 0


def sign(secret: str, body: bytes, time: int) -> str:
    """The header's value: `t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA256 of "t.body">`."""
    digest = hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={time},v1={digest}"


def check_url(url: str) -> httpx.URL:
    """The address, if it is one that alerts may go to as far as can be told without asking anybody. Raises Refused."""
    try:
        parsed = httpx.URL(url)
        port = parsed.port
    except (httpx.InvalidURL, ValueError) as error:
        raise WebhookRefused(f"This is no address: {error}.") from error
    if parsed.scheme not in {"http", "https"}:
        raise WebhookRefused("The address must begin with https:// or http://.")
    if not parsed.host:
        raise WebhookRefused("The address names no host.")
    if port is not None and not 0 < port < 65536:
        raise WebhookRefused(f"This is no address: there is no port {port}.")
    if parsed.userinfo:
        raise WebhookRefused("The address must not hold a name or a password.")
    try:
        literal = ipaddress.ip_address(parsed.host)
    except ValueError:
        return parsed
    if not _may_be_private(parsed.host) and not is_public(literal):
        raise WebhookRefused(_inner(parsed.host))
    return parsed


def is_public(address: Address) -> bool:
    """Whether the address belongs to the public internet, also as seen through IPv6's ways to write IPv4."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


def post(url: str, body: bytes, headers: dict[str, str]) -> WebhookResponse:
    """Send the body. Whatever happens is told in the outcome."""
    started = time.monotonic()
    try:
        status, answer = asyncio.run(_post(url, body, headers))
        ok = 200 <= status < 300
        if 300 <= status < 400:
            answer = f"It answered with a redirect, which is not followed. {answer}".strip()
    except WebhookRefused as refusal:
        ok, status, answer = False, None, str(refusal)
    except TimeoutError:
        ok, status, answer = False, None, f"No answer within {TIMEOUT:.0f} s."
    except (httpx.HTTPError, OSError) as error:
        ok, status, answer = False, None, f"No answer: {error or type(error).__name__}"
    return WebhookResponse(ok, status, answer[:MAX_RESPONSE_BYTES], round(1000 * (time.monotonic() - started)))


async def _post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    target = check_url(url)
    async with asyncio.timeout(TIMEOUT):  # of everything: a target must not hold us by one byte a second
        address = await _resolve(target)
        request = httpx.Request(
            "POST",
            target.copy_with(host=address),
            content=body,
            headers={"Host": target.netloc.decode("ascii"), "User-Agent": "Echoscope-Alerts/1", **headers},
            extensions={"sni_hostname": target.raw_host.decode("ascii"), "timeout": httpx.Timeout(TIMEOUT).as_dict()},
        )
        async with httpx.AsyncClient(trust_env=False, follow_redirects=False) as client:
            response = await client.send(request, stream=True)
            try:
                answer = b""
                async for part in response.aiter_raw(512):
                    answer += part
                    if len(answer) >= MAX_RESPONSE_BYTES:
                        break
            finally:
                await response.aclose()
            return response.status_code, answer.decode("utf-8", "replace").replace("\0", "␀")


async def _resolve(target: httpx.URL) -> str:
    """An address of the host that may be reached. Raises Refused when it has an inner one."""
    port = target.port or (443 if target.scheme == "https" else 80)
    host = target.raw_host.decode("ascii").strip("[]")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise WebhookRefused(f"The name {host} is not known: {error.strerror}.") from error
    addresses = [str(entry[4][0]) for entry in found]
    if not _may_be_private(host) and not all(is_public(ipaddress.ip_address(address)) for address in addresses):
        raise WebhookRefused(_inner(host))
    return addresses[0]


def _may_be_private(host: str) -> bool:
    allowed = settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS
    return "*" in allowed or host.lower() in {name.lower() for name in allowed}


def _inner(host: str) -> str:
    return (
        f"{host} is in a private network, where alerts are not sent. The operator of this site can allow it: "
        f"ECHOSCOPE_ALERT_PRIVATE_HOSTS={host}"
    )
