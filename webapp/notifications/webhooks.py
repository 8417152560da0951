"""POST requests to user-supplied URLs: public addresses only, bounded in time and size, no redirects.

Names are resolved here and the connection goes to the address that was checked, so that a name cannot resolve to a
public address during the check and to an internal one afterwards (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from dataclasses import dataclass

import httpx
from django.conf import settings

TIMEOUT = 10.0
MAX_RESPONSE_BYTES = 2000
NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT, internal networks of clouds
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, metadata of cloud machines
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # former 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
"""Special-purpose networks (RFC 6890 and its successors), listed here because Python's tables differ by version."""
PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
"""The only IPv6 addresses that are handed out."""
NOT_PUBLIC_V6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo, benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class WebhookRefused(ValueError):
    """The URL is not allowed. The message gives the reason."""


@dataclass(frozen=True)
class SendResult:
    """Result of an attempt. `answer` is the beginning of the response, or the reason why there was none.

    `held` means that the site did not send the alert, so that the receiver is not to blame.
    """

    ok: bool
    status: int | None
    answer: str
    milliseconds: int = 0
    held: bool = False


def check_url(url: str) -> httpx.URL:
    """Check the URL as far as possible without resolving its host, and parse it. Raises WebhookRefused."""
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


def check_port(target: httpx.URL) -> None:
    """Raise WebhookRefused for a port of other services, unless the operator has named the host."""
    port, allowed = _port(target), settings.ECHOSCOPE_ALERT_PORTS
    if str(port) not in allowed and not _may_be_private(target.host):
        raise WebhookRefused(
            f"Alerts are sent to the ports {', '.join(allowed)} only, not to {port}. The operator of this site can "
            f"allow it: ECHOSCOPE_ALERT_PORTS={','.join([*allowed, str(port)])}"
        )


def _port(target: httpx.URL) -> int:
    return target.port or (443 if target.scheme == "https" else 80)


def is_public(address: Address) -> bool:
    """Return True if the address is public. IPv6 addresses that contain an IPv4 address count as that address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None:
            return address in PUBLIC_V6 and not any(address in network for network in NOT_PUBLIC_V6)
        address = inner
    return not any(address in network for network in NOT_PUBLIC_V4)


def post(url: str, body: bytes, headers: dict[str, str]) -> SendResult:
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
    return SendResult(ok, status, answer[:MAX_RESPONSE_BYTES], round(1000 * (time.monotonic() - started)))


async def _post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    target = check_url(url)
    async with asyncio.timeout(TIMEOUT):  # in total: a target must not keep the connection by sending one byte a second
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
    """Return an allowed address of the host. Raises WebhookRefused if one of its addresses is internal."""
    port = _port(target)
    host = target.raw_host.decode("ascii").strip("[]")
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise WebhookRefused(f"Cannot resolve {host}: {error.strerror}.") from error
    addresses = [str(entry[4][0]) for entry in infos]
    if not _may_be_private(host) and not all(is_public(ipaddress.ip_address(address)) for address in addresses):
        raise WebhookRefused(_private_network(host))
    check_port(target)
    return addresses[0]


def _may_be_private(host: str) -> bool:
    allowed = settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS
    return "*" in allowed or host.lower() in {name.lower() for name in allowed}


def _private_network(host: str) -> str:
    return (
        f"{host} is in a private network, and alerts are not sent there. The operator of this site can allow it: "
        f"ECHOSCOPE_ALERT_PRIVATE_HOSTS={host}"
    )
