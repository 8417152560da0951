"""MCP over streamable HTTP: each message is a POST, answered with JSON or a stream of server-sent events.

Parts that the revision 2025-06-18 leaves to the client are missing: streams opened by GET, and resumed streams.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import httpx

from envs.tools.mcp_client import MAX_MESSAGE, McpError, McpTransport, SessionExpiredError, encoded, no_answer

EXAMPLE = "http://localhost:8000/mcp"
_SESSION = "Mcp-Session-Id"
_VERSION = "MCP-Protocol-Version"
_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",  # a limit on the bytes of a response then also limits its text
    "Content-Type": "application/json",
    "User-Agent": "Echoscope/1",
}
_MAX_DETAIL = 64 * 2**10
"""Bytes of a response with an error status that are read for its message."""
_MAX_REASON = 300
_CLOSE_TIMEOUT = 1.0
_KEEPALIVE = 2.0
"""Seconds that an unused connection is kept: many servers close one after five, without notice."""
_HEADER_TEXT = re.compile(r"[!-~]{1,1000}")
_ADVICE = {
    401: "it requires credentials, which environments do not have: let it accept this machine without them",
    403: "it refuses this machine: allow it in the server's settings",
    404: f"there is no MCP server at this address: check its path, as in {EXAMPLE}",
    405: f"it accepts no messages at this address: check its path, as in {EXAMPLE}; "
    "servers of the former transport HTTP+SSE are not supported",
    429: "it receives too many requests: play fewer trajectories at a time",
}
"""HTTP status → its meaning and advice."""


class HttpTransport(McpTransport):
    """A session with a server at an address. `close` ends it there, too.

    Args:
        address: address of the endpoint that takes the messages, as in http://localhost:8000/mcp.
        timeout: seconds for the receipt of a notification.
    """

    def __init__(self, address: str, timeout: float) -> None:
        self.address, self.timeout = address, timeout
        self.server = f"the MCP server {address}"
        self._session = ""
        self._open = True
        self._client = httpx.Client(
            headers=_HEADERS,
            trust_env=False,  # no proxy, and no password of ~/.netrc
            follow_redirects=False,  # the address is the one that was allowed
            limits=httpx.Limits(keepalive_expiry=_KEEPALIVE),
        )

    def send(self, message: dict[str, Any]) -> None:
        for _ in self._posted(message, self.timeout):
            pass

    def exchange(self, request: dict[str, Any], timeout: float) -> Generator[dict[str, Any], None, None]:
        yield from self._posted(request, timeout)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._session:
            try:
                self._client.delete(self.address, headers=self._session_headers(), timeout=_CLOSE_TIMEOUT)
            except httpx.HTTPError:
                pass  # the server will end the session by itself
        self._client.close()

    @property
    def running(self) -> bool:
        return self._open

    def _posted(self, message: dict[str, Any], timeout: float) -> Generator[dict[str, Any], None, None]:
        """Send a message and yield the messages in the response: none for a notification or an answer."""
        if not self._open:
            raise McpError(f"the session with {self.server} has ended")
        try:
            yield from self._response_messages(message, timeout)
        except McpError:
            self.close()
            raise
        except httpx.TimeoutException:
            self.close()
            raise no_answer(self.server, {"method": "a message"} | message, timeout) from None
        except httpx.ConnectError as error:
            self.close()
            reason = _short(error) or "no connection"
            raise McpError(f"{self.server} cannot be reached: {reason}; check that it is running") from None
        except (httpx.InvalidURL, UnicodeError):
            self.close()
            raise McpError(f"{self.server} has no valid address: write it as in {EXAMPLE}") from None
        except httpx.HTTPError as error:
            self.close()
            raise McpError(f"{self.server} broke the connection: {_short(error) or type(error).__name__}") from None

    def _response_messages(self, message: dict[str, Any], timeout: float) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + timeout
        headers = self._session_headers()
        with self._client.stream(
            "POST", self.address, content=encoded(message), headers=headers, timeout=timeout
        ) as response:
            self._check_status(response, deadline)
            if "id" not in message or "method" not in message:
                return
            method = message["method"]
            if method == "initialize":
                self._session = self._read_session(response)
            parts = self._limited(response, deadline)
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if kind == "text/event-stream":
                for data in event_data(parts):
                    yield from self._parsed(data, method)
            elif kind == "application/json":
                yield from self._parsed(b"".join(parts), method)
            else:
                received = f"HTTP {response.status_code}, {kind[:100] or 'no content type'}"
                raise McpError(
                    f"{self.server} answered {method} with neither JSON nor an event stream ({received}): check "
                    f"that it is the address of an MCP server, as in {EXAMPLE}"
                )

    def _session_headers(self) -> dict[str, str]:
        known = {_SESSION: self._session, _VERSION: self.version}
        return {name: value for name, value in known.items() if _HEADER_TEXT.fullmatch(value)}

    def _read_session(self, response: httpx.Response) -> str:
        """Return the id of the session that a server begins; empty if it has no sessions."""
        session = str(response.headers.get(_SESSION, ""))
        if session and not _HEADER_TEXT.fullmatch(session):
            raise McpError(f"{self.server} breaks the protocol: its session id has characters other than ASCII")
        return session

    def _check_status(self, response: httpx.Response, deadline: float) -> None:
        status = response.status_code
        if response.is_success:
            return
        if response.has_redirect_location:
            target = _short(response.headers["Location"])
            raise McpError(f"{self.server} redirects to {target!r} (HTTP {status}): set url to its own address")
        if status == httpx.codes.NOT_FOUND and self._session:
            self._session = ""
            raise SessionExpiredError(
                f"the session with {self.server} has expired (HTTP 404): the next trajectory begins another one; let "
                "the server keep its sessions for longer than a trajectory takes"
            )
        detail = self._error_message(response, deadline)
        reasons = [reason for reason in (_ADVICE.get(status), detail and f"its message: {detail}") if reason]
        raise McpError(f"{self.server} failed with HTTP {status}: {'; '.join(reasons) or 'see its log for the reason'}")

    def _error_message(self, response: httpx.Response, deadline: float) -> str:
        """Return the message of a JSON-RPC error in a response, or an empty string."""
        try:
            data = b"".join(self._limited(response, deadline, _MAX_DETAIL))
            error = json.loads(data)["error"]
            return _short(error["message"])
        except (httpx.HTTPError, McpError, ValueError, RecursionError, LookupError, TypeError):
            return ""

    def _limited(self, response: httpx.Response, deadline: float, limit: int = MAX_MESSAGE) -> Iterator[bytes]:
        """Yield the parts of a body. A stream of many small parts also ends at the deadline."""
        size = 0
        for part in response.iter_bytes():
            size += len(part)
            if size > limit:
                raise McpError(f"{self.server} sent a response of more than {limit >> 20} MiB")
            yield part
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the response takes too long")

    def _parsed(self, data: bytes, method: str) -> Iterator[dict[str, Any]]:
        """Yield the messages in a body or event, which earlier revisions let servers collect in a list."""
        try:
            decoded = json.loads(data)
        except (ValueError, RecursionError):
            decoded = None
        messages = decoded if isinstance(decoded, list) else [decoded]
        if not all(isinstance(message, dict) for message in messages):
            raise McpError(
                f"{self.server} answered {method} with something that is no JSON object: {_short(data[:100])!r}"
            )
        yield from messages


def event_data(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield data of the messages in a stream of server-sent events, whose parts may be cut anywhere.

    Events of other types, comments, ids, empty data, and an event without the empty line at its end are left out.
    """
    data: list[bytes] = []
    kind = b""
    for line in _lines(parts):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            text = b"\n".join(data)
            if text and kind in (b"", b"message"):
                yield text
            data, kind = [], b""
        elif name == b"data":
            data.append(value)
        elif name == b"event":
            kind = value


def _lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield complete lines, which end with a line feed, a carriage return, or both."""
    unfinished: list[bytes] = []
    after_return = False
    for number, part in enumerate(parts):
        if number == 0:
            part = part.removeprefix(b"\xef\xbb\xbf")  # the byte order mark
        elif after_return:
            part = part.removeprefix(b"\n")  # the second half of a line end
        after_return = part.endswith(b"\r")
        first, *more = part.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        unfinished.append(first)
        for line in more:
            yield b"".join(unfinished)
            unfinished = [line]


def _short(value: Any) -> str:
    text = " ".join((value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)).split())
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 1] + "…"
