"""Sending requests: credentials, errors as exceptions, and patience with calls that may be repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from echoscope.errors import Unreachable, refusal

TRY_AGAIN = (429, 502, 503, 504)
TRIES = 5
FIRST_WAIT, LONGEST_WAIT = 0.5, 15.0


class Transport:
    """A connection to one site on behalf of one token."""

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
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
        """The answer, if it is a success. Raises Refused, or Unreachable.

        Calls that may be repeated (reading, unless told otherwise) are, with growing waits, when the site is away.
        """
        again = method == "GET" if repeatable is None else repeatable
        params = {name: _spelled(value) for name, value in (query or {}).items() if value is not None}
        for attempt in range(TRIES if again else 1):
            last = attempt == (TRIES if again else 1) - 1
            try:
                answer = self._http.request(
                    method, path, params=params, json=body, content=content, headers=dict(headers or {})
                )
            except httpx.TransportError as error:
                if last:
                    raise Unreachable(f"{self.url} cannot be reached ({error or type(error).__name__}).") from error
                self._wait(attempt, None)
                continue
            if answer.status_code in TRY_AGAIN and not last:
                self._wait(attempt, answer.headers.get("Retry-After"))
                continue
            break
        if answer.is_success:
            return answer
        raise _refused(self.url, answer)

    def _wait(self, attempt: int, asked: str | None) -> None:
        if asked and asked.isdecimal():
            self._sleep(min(float(asked), 4 * LONGEST_WAIT))
        else:
            most = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt)
            self._sleep(most * (0.5 + random.random() / 2))


def _spelled(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return list(value) if isinstance(value, list | tuple) else value


def _refused(url: str, answer: httpx.Response) -> Exception:
    try:
        error = answer.json()["error"]
        return refusal(answer.status_code, error)
    except (ValueError, KeyError, TypeError):
        if answer.status_code >= 500:
            return refusal(answer.status_code, {"message": f"{url} answered {answer.status_code}: its log says why."})
        return Unreachable(f"{url} answered {answer.status_code}, but not as an Echoscope does: is the address right?")
