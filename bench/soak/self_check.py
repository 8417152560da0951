"""Checks a web server after a disturbance: one page and one API call of each kind must give the right answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx

TIMEOUT = 5.0
MISSING = "zzzzzzzzzzzz"
"""Slug that no run has."""


@dataclass(frozen=True)
class Question:
    """A request and the status of the right answer, with a text that it contains."""

    path: str
    headers: dict[str, str]
    status: int
    text: str = ""

    def fault(self, client: httpx.Client) -> str:
        """Describe a wrong answer of a web server; empty if it is right."""
        try:
            answer = client.get(self.path, headers=self.headers)
        except httpx.HTTPError as error:
            return f"{self.path} has no answer ({type(error).__name__})"
        if answer.status_code != self.status:
            return f"{self.path} answers {answer.status_code} instead of {self.status}"
        return "" if self.text in answer.text else f"{self.path} lacks {self.text!r}"


def questions(slug: str, cookie: str, token: str) -> Iterator[Question]:
    """Yield pages and calls of a member, an outsider and a monitor, about a run that exists and one that does not."""
    member, client, nobody = {"Cookie": cookie}, {"Authorization": f"Bearer {token}"}, dict[str, str]()
    yield Question("/readyz", nobody, 200)
    yield Question(f"/runs/{slug}/", member, 200, slug)
    yield Question(f"/runs/{MISSING}/", member, 404)
    yield Question("/no/such/page", member, 404)
    yield Question("/account", nobody, 302)
    yield Question(f"/api/runs/{slug}", client, 200, f'"{slug}"')
    yield Question(f"/api/runs/{MISSING}", client, 404)
    yield Question(f"/api/runs/{slug}", nobody, 401)


def first_fault(url: str, slug: str, cookie: str, token: str) -> str:
    """Return the first wrong answer of a web server; empty if all are right."""
    with httpx.Client(base_url=url, timeout=TIMEOUT, verify=False) as client:  # on loopback, without TLS
        return next(filter(None, (question.fault(client) for question in questions(slug, cookie, token))), "")
