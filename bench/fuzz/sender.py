"""Sends one unit of requests, in a transaction that is rolled back, and collects forbidden results."""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.fuzz import journals, sockets
from bench.fuzz.requests import Request, api_request, page_request, patterns
from bench.fuzz.site import Site

KINDS = ("page", "api", "socket", "journal")
WEIGHTS = (52, 36, 11, 1)  # an imported journal has some forty visits
SLOW = 5.0  # seconds
SERVER_ERROR, BROKEN, LEAK, SLOW_ANSWER = "5xx", "broken off", "leak", "slow"


@dataclass(frozen=True)
class Finding:
    """A request with a forbidden result.

    Attributes:
        what: SERVER_ERROR, BROKEN, LEAK or SLOW_ANSWER.
        unit: number with which --replay repeats it.
        cause: the exception and the project's last line in its traceback, or the status.
    """

    what: str
    route: str
    request: str
    unit: int
    cause: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Key under which findings are counted as one."""
        return self.what, self.route, self.cause


@dataclass
class Tally:
    """Requests by kind and by status, and the findings."""

    requests: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    routes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.requests += other.requests
        self.statuses += other.statuses
        self.routes += other.routes
        self.findings += other.findings


class Sender:
    """Sends units of requests to the site of this process. Django must be set up.

    A unit is one request, one conversation over a socket, or the import of a journal with all visits to its run. Its
    choices depend only on `seed` and its number, and its changes are rolled back, so that every unit can be repeated by
    itself.
    """

    def __init__(self, site: Site, seed: int) -> None:
        from django.conf import settings

        from webapp.api.root import api

        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        settings.ALLOWED_HOSTS = ["*"]
        settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
        self.site, self.seed = site, seed
        self.cookie_name = settings.SESSION_COOKIE_NAME
        self.patterns = patterns()
        self.document: dict[str, Any] = api.get_openapi_schema(path_prefix="/api/")
        self.loop = asyncio.new_event_loop()
        self.tally = Tally()

    def unit(self, number: int) -> None:
        """Send the unit of that number."""
        from django.db import InterfaceError, OperationalError, connection, transaction

        dice = self._dice(number)
        kind = dice.choices(KINDS, WEIGHTS)[0]
        if kind == "socket":
            self._converse(dice, number)
            return
        began = time.monotonic()
        try:
            with transaction.atomic():
                with connection.cursor() as cursor:  # a unit is one transaction, however long its requests take
                    cursor.execute("SET idle_in_transaction_session_timeout = 0")
                if kind == "page":
                    self._send(kind, page_request(dice, self.site, self.patterns), number)
                elif kind == "api":
                    self._send(kind, api_request(dice, self.site, self.document), number)
                else:
                    self._import(dice, number)
                transaction.set_rollback(True)
        except (OperationalError, InterfaceError) as error:
            connection.close()
            took = f"after {time.monotonic() - began:.0f} s"
            self._found(BROKEN, kind, f"unit {number}, {took}", number, _cause(error))

    def get_kind(self, number: int) -> str:
        """Return the kind of the unit of that number."""
        return self._dice(number).choices(KINDS, WEIGHTS)[0]

    def _dice(self, number: int) -> random.Random:
        return random.Random(f"{self.seed}-{number}")

    def close(self) -> None:
        self.loop.close()

    def _converse(self, dice: random.Random, number: int) -> None:
        talk = sockets.conversation(dice, self.site)
        frames, fault = self.loop.run_until_complete(sockets.hold(self.site, self.cookie_name, talk))
        visitor, path, query, sent = talk
        request = f"websocket {path}?{query} as {visitor}, frames {sent!r}"[:1500]
        route = path.split("/")[2]
        self.tally.requests["socket"] += 1
        self.tally.routes[f"websocket {route}"] += 1
        if fault:
            self._found(SERVER_ERROR, f"websocket {route}", request, number, fault)
        if visitor in self.site.outside and any(self.site.canary in frame for frame in frames):
            self._found(LEAK, f"websocket {route}", request, number, visitor)

    def _import(self, dice: random.Random, number: int) -> None:
        from webapp.runs.models import Run
        from webapp.trajectories.models import Trajectory

        newest = Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        self._send("journal", journals.import_request(dice), number)
        run = Run.objects.filter(pk__gt=newest).first()
        if run is None:
            return
        played = list(Trajectory.objects.filter(run=run).order_by("-turn_count", "pk").values_list("slug", "key")[:2])
        known = {
            "run": run.slug,
            "trajectory": played[0][0] if played else None,
            "other": played[-1][0] if played else None,
            "key": played[0][1] if played else "x",
        }
        for request in journals.visits(known, self.patterns, self.document):
            self._send("journal", request, number)

    def _send(self, kind: str, request: Request, number: int) -> None:
        from django.db import transaction
        from django.test import Client

        client = Client(raise_request_exception=False, headers=self._headers(request))
        if cookie := self.site.cookies.get(request.visitor):
            client.cookies[self.cookie_name] = cookie
        began = time.perf_counter()
        body, status, cause = b"", 0, ""
        try:
            with transaction.atomic():
                response = client.generic(request.method, request.path, request.body, request.content_type)
                status = response.status_code
                if status >= 500 and getattr(response, "exc_info", None):
                    cause = _cause(response.exc_info[1])
                if response.streaming:
                    body = b"".join(response.streaming_content)
                else:
                    body = response.content
                transaction.set_rollback(
                    request.method not in ("GET", "HEAD") and not request.path.startswith(journals.IMPORT)
                )
        except Exception as error:  # noqa: BLE001  an answer that breaks off is the finding
            self._found(BROKEN, request.route, str(request), number, _cause(error))
        self.tally.requests[kind] += 1
        self.tally.routes[request.route] += 1
        self.tally.statuses[status] += 1
        if status >= 500:
            self._found(SERVER_ERROR, request.route, str(request), number, cause or f"status {status}")
        if (took := time.perf_counter() - began) > SLOW:
            self._found(SLOW_ANSWER, request.route, f"{request} ({took:.1f} s)", number, f"over {SLOW:.0f} s")
        seen = body + repr(sorted(response.headers.items())).encode() if status else body
        if request.visitor in self.site.outside and self.site.canary.encode() in seen:
            self._found(LEAK, request.route, str(request), number, request.visitor)

    def _headers(self, request: Request) -> dict[str, str]:
        token = self.site.tokens.get(request.visitor)
        return {"host": "localhost", **request.headers, **({"Authorization": f"Bearer {token}"} if token else {})}

    def _found(self, what: str, route: str, request: str, number: int, cause: str) -> None:
        self.tally.findings.append(Finding(what, route, request, number, cause))


def _cause(error: BaseException) -> str:
    """Return the exception, and the project's deepest line in its traceback."""
    lines = [
        f"{frame.filename.rpartition('/webapp/')[2] or frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/webapp/" in frame.filename or "/trainer/" in frame.filename or "/envs/" in frame.filename
    ]
    text = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {text[:120]} at {lines[-1] if lines else 'a library'}"
