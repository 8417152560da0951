"""One page beside the repository's static files, answered by the browser's own routes: no server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Page, Route

from tests.running_product import wait_for
from webapp.settings import ROOT

ORIGIN = "http://page.test"
TEMPLATES = ROOT / "templates" / "trajectories"
KINDS = {
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
}
_STYLES = "".join(f'<link rel="stylesheet" href="/static/css/{name}.css">' for name in ("base", "board", "player"))

Scheme = Literal["light", "dark"]


class StaticPages:
    """Pages of one browser context, with the errors of their scripts."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.faults: list[str] = []

    def open(self, text: str, ready: str) -> Page:
        """Show a document.

        Args:
            text: HTML; its addresses are those of files in the repository.
            ready: an expression of JavaScript that is true once the page's script has run.
        """

        def serve(route: Route) -> None:
            path = route.request.url.removeprefix(ORIGIN)
            file = ROOT / path.lstrip("/")
            if path == "/":
                route.fulfill(body=text, content_type="text/html; charset=utf-8")
            elif file.is_file():
                route.fulfill(body=file.read_bytes(), content_type=KINDS[file.suffix[1:]])
            else:
                route.fulfill(status=204)

        self.context.route("**/*", serve)
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.goto(f"{ORIGIN}/")
        wait_for(lambda: page.evaluate(f"Boolean({ready})"), ready, lambda: str(self.faults))
        return page

    def open_player(self, trajectory: Mapping[str, Any]) -> Page:
        """Show the player with the page data of a trajectory; scripts reach it as `window.player`."""
        return self.open(player_document(trajectory), "window.player")


@contextmanager
def static_pages(browser: Browser, width: int, height: int, scheme: Scheme) -> Iterator[StaticPages]:
    """Pages with a viewport of this size in CSS pixels. An error of a script fails the test at the end."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    pages = StaticPages(context)
    yield pages
    context.close()
    assert not pages.faults


def html(body: str, script: str, head: str = "") -> str:
    """A document with the site's styles and a module script."""
    return (
        f'<!doctype html><html class="js"><head>{head}{_STYLES}</head><body>{body}'
        f'<script type="module">{script}</script></body></html>'
    )


def player_document(trajectory: Mapping[str, Any]) -> str:
    """The player's template, without Django, with the page data of a trajectory."""
    template = (TEMPLATES / "_player.html").read_text()
    for part in ("_speeds.html", "_play_and_back.html"):
        included = (TEMPLATES / part).read_text()
        template = re.sub(rf'{{% include "trajectories/{part}".*?%}}', lambda _, text=included: text, template)
    markup = re.sub(r"{%.*?%}", "", re.sub(r"{% if board_text %}.*?{% endif %}", "", template))
    markup = re.sub(r"{{.*?}}", "", markup.replace(" hidden>", ">"))
    data = json.dumps(trajectory).replace("<", "\\u003c")
    script = f"""
    import {{ Player }} from "/static/js/player/player.js";
    window.player = new Player(document.querySelector("[data-player]"));
    window.player.load({data});
    """
    return html(f'<main class="page">{markup}</main>', script, '<meta name="viewport" content="width=device-width">')


def go(page: Page, position: int) -> None:
    """Move the player to a position, from 0; beyond the end: to the last one."""
    page.evaluate("(index) => window.player.take(index)", position)
