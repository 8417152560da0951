"""POST requests to user-supplied URLs: public addresses only, bounded in time and size, no redirects; signatures.

Names are resolved here and the connection goes to the address that was checked, so that a name cannot resolve to a
public address during the check and to an internal one afterwards (DNS rebinding).
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
    """The URL is not allowed. The message gives the reason."""


@dataclass(frozen=True)
class WebhookResponse:
    """Result of an attempt. `answer` is the beginning of the response, or why there was none."""

    ok: bool
    status: int | None
    answer: str
    milliseconds: int = 0


def sign(secret: str, body: bytes, time: int) -> str:
    """The header's value: `t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA256 of "t.body">`."""
    digest = hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={time},v1={digest}"


def check_url(url: str) -> httpx.URL:
    """The URL, checked as far as possible without resolving its host. Raises WebhookRefused."""
    try:
        parsed = httpx.URL(url)
        port = parsed.port
    except (httpx.InvalidURL, ValueError) as error:
        raise WebhookRefused(f"This is not a valid URL: {error}.") from error
    if parsed.scheme not in {"http", "https"}:
        raise WebhookRefused("The URL must begin with https:// or http://.")
    if not parsed.host:
        raise WebhookRefused("The URL has no host.")
    if port is not None and not 0 < port < 65536:
        raise WebhookRefused(f"This is not a valid URL: port {port} does not exist.")
    if parsed.userinfo:
        raise WebhookRefused("The URL must not contain a user name or a password.")
    try:
        literal = ipaddress.ip_address(parsed.host)
    except ValueError:
        return parsed
    if not _may_be_private(parsed.host) and not is_public(literal):
        raise WebhookRefused(_private_network(parsed.host))
    return parsed


def is_public(address: Address) -> bool:
    """Whether the address is public, IPv4 addresses embedded in IPv6 included."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


def post(url: str, body: bytes, headers: dict[str, str]) -> WebhookResponse:
    """Send the body. Errors are reported in the result, not raised."""
    started = time.monotonic()
    try:
        status, answer = asyncio.run(_post(url, body, headers))
        ok = 200 <= status < 300
        if 300 <= status < 400:
            answer = f"The response is a redirect, which is not followed. {answer}".strip()
    except WebhookRefused as refusal:
        ok, status, answer = False, None, str(refusal)
    except TimeoutError:
        ok, status, answer = False, None, f"No response within {TIMEOUT:.0f} s."
    except (httpx.HTTPError, OSError) as error:
        ok, status, answer = False, None, f"No response: {error or type(error).__name__}"
    return WebhookResponse(ok, status, answer[:MAX_RESPONSE_BYTES], round(1000 * (time.monotonic() - started)))


async def _post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    target = check_url(url)
    async with asyncio.timeout(TIMEOUT):  # overall: a target must not keep the connection with one byte a second
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
    """An allowed address of the host. Raises WebhookRefused if one of its addresses is internal."""
    port = target.port or (443 if target.scheme == "https" else 80)
    host = target.raw_host.decode("ascii").strip("[]")
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise WebhookRefused(f"Cannot resolve {host}: {error.strerror}.") from error
    addresses = [str(entry[4][0]) for entry in infos]
    if not _may_be_private(host) and not all(is_public(ipaddress.ip_address(address)) for address in addresses):
        raise WebhookRefused(_private_network(host))
    return addresses[0]


def _may_be_private(host: str) -> bool:
    allowed = settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS
    return "*" in allowed or host.lower() in {name.lower() for name in allowed}


def _private_network(host: str) -> str:
    return (
        f"{host} is in a private network, and alerts are not sent there. The operator of this site can allow it: "
        f"ECHOSCOPE_ALERT_PRIVATE_HOSTS={host}"
    )
