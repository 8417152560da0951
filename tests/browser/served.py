"""Pages served without a web server: Django's test client answers the browser's requests.

For tests that visit many pages once; interaction with a server is tested against the whole product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.contrib.staticfiles import finders
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from playwright.sync_api import BrowserContext, Page, Route

from webapp.settings import ROOT

ORIGIN = "http://pages.localhost"  # which browsers trust like https
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FORWARDED = {"hx-request", "x-seen"}
_DROPPED = {"content-length", "content-encoding", "set-cookie"}


@pytest.fixture(scope="module", autouse=True)
def tables_beside_the_browser() -> Iterator[None]:
    """For modules that import it: Playwright's event loop runs in this thread, where Django refuses queries.

    Nothing is concurrent.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield


def serve(context: BrowserContext, client: Client) -> None:
    """Answer all requests of the context's pages with the client. Websockets stay open and silent.

    Responses use another database connection: they show committed data only.
    """

    def answer(route: Route) -> None:
        address = urlsplit(route.request.url)
        if address.path.startswith("/static/"):
            file = finders.find(address.path.removeprefix("/static/"))
            if file is None:
                route.fulfill(status=404)
            else:
                route.fulfill(path=file, content_type=KINDS.get(Path(file).suffix, "application/octet-stream"))
            return
        path_and_query = f"{address.path}?{address.query}" if address.query else address.path
        try:
            htmx = {name: value for name, value in route.request.headers.items() if name in _FORWARDED}
            request = client.get
            if route.request.method == "POST":
                kind = route.request.headers.get("content-type", "application/octet-stream")
                request = partial(client.post, data=route.request.post_data_buffer or b"", content_type=kind)
            response = request(path_and_query, HTTP_HOST="localhost", headers=htmx)
            body = b"".join(response.streaming_content) if response.streaming else response.content
        finally:
            connection.close()  # the browser's callbacks have their own connection
        headers = {name: value for name, value in response.headers.items() if name.lower() not in _DROPPED}
        route.fulfill(status=response.status_code, body=body, headers=headers)

    context.route("**/*", answer)
    context.route_web_socket("**/ws/**", lambda socket: None)


def open_known(context: BrowserContext, known: Mapping[str, HttpResponse], faults: list[str]) -> Page:
    """Open the first of the known paths, with responses that the test client gave before the browser asked.

    Files of the repository are served as well; websockets stay open and silent.

    Args:
        faults: gets the errors of the page's scripts and console.
    """

    def answer(route: Route) -> None:
        path = urlsplit(route.request.url).path
        file = ROOT / path.lstrip("/")
        if path in known:
            route.fulfill(body=known[path].content, headers=dict(known[path].headers))
        elif file.is_file():
            route.fulfill(body=file.read_bytes(), content_type=KINDS.get(file.suffix, "application/octet-stream"))
        else:
            route.fulfill(status=204)

    context.route("**/*", answer)
    context.route_web_socket("**/ws/**", lambda socket: None)
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(f"{ORIGIN}{next(iter(known))}")
    return page
