"""HTTP requests to a site: credentials, errors as exceptions, retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx

from echoscope.errors import InvalidAddress, Unreachable, refusal

LIMITED = 429
"""Status of a request that the site rejected unread: it can be sent again, whatever it does."""
RETRY_STATUSES = (LIMITED, 502, 503, 504)
MAX_ATTEMPTS = 5
MIN_BACKOFF, MAX_BACKOFF = 0.5, 15.0
State = TypeVar("State")


def check_address(url: str) -> None:
    """Raise InvalidAddress unless it is an HTTP address: others would be retried as if the site were down."""
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, UnicodeError) as error:  # the last one is of a name with odd letters
        raise InvalidAddress(f"{url!r} is no address of a site: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InvalidAddress(
            f"{url!r} is no address of a site: it must begin with http:// or https://, as in http://localhost:8000."
        )


def changes(
    read: Callable[[], State], is_over: Callable[[State], bool], sleep: Callable[[float], None], every: float
) -> Iterator[State]:
    """Yield what `read` returns now and after each change, until it is over; it is called `every` few seconds."""
    previous: State | None = None
    while True:
        now = read()
        if now != previous:
            yield now
            previous = now
        if is_over(now):
            return
        sleep(every)


class Transport:
    """A connection to one site on behalf of one token."""

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        check_address(url)
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=f"{self.url}/api",
            headers={"Authorization": f"Bearer {token}", "User-Agent": "echoscope"},
            timeout=timeout,
        )

    def close(self) -> None:
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> httpx.Response:
        """Send a request. Returns the successful response; raises Refused or Unreachable.

        Repeatable requests (by default GET) are retried with exponential backoff while the site is unavailable, others
        only after too many requests.
        """
        repeatable = method == "GET" if repeatable is None else repeatable
        params = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
        for attempt in range(MAX_ATTEMPTS):
            last = attempt == MAX_ATTEMPTS - 1
            try:
                response = self._http.request(
                    method, path, params=params, json=body, content=content, headers=dict(headers or {})
                )
            except httpx.TransportError as error:
                if last or not repeatable:
                    raise _unreachable(self.url, error) from error
                self._wait(attempt, None)
                continue
            retry = response.status_code in RETRY_STATUSES if repeatable else response.status_code == LIMITED
            if retry and not last:
                self._wait(attempt, response.headers.get("Retry-After"))
                continue
            break
        if response.is_success:
            return response
        raise _exception(self.url, response)

    def items(self, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, fetched page by page during iteration."""
        cursor: str | None = None
        while True:
            page = self.send("GET", path, query={**query, "cursor": cursor}).json()
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def download(self, path: str, target: Path, query: Mapping[str, Any] | None = None) -> Path:
        """Stream a response into a file. Raises Refused or Unreachable, and then leaves no file behind."""
        partial = target.with_name(f".{target.name}.part")
        try:
            with partial.open("wb") as file:
                for block in self.stream(path, query):
                    file.write(block)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return target

    def stream(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """Yield the blocks of a response as they arrive. Raises Refused or Unreachable, also between two blocks."""
        parameters = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
        try:
            with self._http.stream("GET", path, params=parameters) as response:
                if not response.is_success:
                    response.read()
                    raise _exception(self.url, response)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error

    def _wait(self, attempt: int, retry_after: str | None) -> None:
        if retry_after and retry_after.isdecimal():
            self._sleep(min(float(retry_after), 4 * MAX_BACKOFF))
        else:
            longest = min(MAX_BACKOFF, MIN_BACKOFF * 2**attempt)
            self._sleep(longest * (0.5 + random.random() / 2))


def _query_value(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return list(value) if isinstance(value, list | tuple) else value


def _unreachable(url: str, error: httpx.TransportError) -> Unreachable:
    advice = " It does not answer as a site with HTTPS: try http:// instead." if "WRONG_VERSION" in str(error) else ""
    return Unreachable(f"{url} is unreachable ({error or type(error).__name__}).{advice}")


def _exception(url: str, response: httpx.Response) -> Exception:
    try:
        error = response.json()["error"]
        return refusal(response.status_code, error)
    except (ValueError, KeyError, TypeError):
        if response.status_code >= 500:
            message = f"{url} responded with status {response.status_code}: see its log."
            return refusal(response.status_code, {"message": message})
        return Unreachable(
            f"{url} responded with status {response.status_code}, but is no Echoscope site: check the address."
        )
