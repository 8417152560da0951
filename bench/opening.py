"""Time from opening a page of a run to its first paint and its charts, in a real browser, through the whole product.

    python -m bench.opening                              # a run with 5,000 metrics of 300 points each
    python -m bench.opening --metrics 40 --points 100000

Opens the live page of a filled run and the curves of a run that logged thousands of metrics. First every round begins
with an empty cache, as a visitor's first page; then with the cache of the rounds before. Also measured there: a section
opened until its first chart is drawn, and a word typed into the filter. Milliseconds; the web process and PostgreSQL
share the machine with the browser.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
from typing import TYPE_CHECKING, Any

from bench.lib.site.live_processes import web
from bench.lib.site.servers import servers
from bench.live import session
from trainer.studies import machine

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

    from webapp.runs.models import Run

PREFIXES = ("grads", "weights", "activations", "optimizer", "attention", "loss", "lr", "data", "gpu", "rollouts")
PAINTS = """() => {
  window.drawn = null;
  new MutationObserver((_, observer) => {
    if (!document.querySelector('.u-wrap canvas')) return;
    observer.disconnect();
    requestAnimationFrame(() => { window.drawn = performance.now(); });
  }).observe(document, {childList: true, subtree: true});
}"""
FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
RESPONSE = "() => performance.getEntriesByType('navigation')[0].responseEnd"
AFTER = """([action, selector]) => new Promise((done, failed) => {
  const began = performance.now();
  setTimeout(() => failed(new Error(`${selector} did not appear`)), 60000);
  const look = () => document.querySelector(selector) ? done(performance.now() - began) : requestAnimationFrame(look);
  if (action.open) {
    const section = document.querySelector(action.open);
    section.open = true;
    section.scrollIntoView();
  } else {
    const field = document.querySelector('[data-filter]');
    field.value = action.filter;
    field.dispatchEvent(new Event('input', {bubbles: true}));
  }
  look();
})"""


ZOOM = """() => new Promise((done) => {
  const chart = document.querySelector('.u-wrap').closest('[tabindex="0"]');
  const began = performance.now();
  chart.dispatchEvent(new KeyboardEvent('keydown', {key: '+', bubbles: true}));
  queueMicrotask(() => done(performance.now() - began));
})"""
"""From the key to the end of its drawing: uPlot draws in a microtask. Finer points are fetched later."""


def metric_names(count: int) -> list[str]:
    """Return names as trainers log them: the metrics of the overview, and statistics of layers by prefix."""
    names = ["success/rate", "reward/mean", "entropy/mean", "reward/in_group_std"]
    for number in range(count - len(names)):
        prefix = PREFIXES[number % len(PREFIXES)]
        names.append(f"{prefix}/layer_{number // len(PREFIXES) // 4}/statistic_{number // len(PREFIXES) % 4}")
    return names


def fill(run: Run, names: list[str], points: int) -> None:
    """Insert `points` values of each metric, in the order in which iterations arrive."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO runs_metricpoint (run_id, name, iteration, value, tokens, seconds) "
            "SELECT %s, name, at, sin(at / 20.0) + random() / 5, 9000 * at, 9.0 * at "
            "FROM generate_series(1, %s) AS at, unnest(%s::text[]) AS name",
            [run.pk, points, names],
        )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE runs_metricpoint")  # autovacuum does this within minutes


def open_page(context: BrowserContext, address: str) -> dict[str, float]:
    """Return the milliseconds until the page was received, painted and its first chart drawn."""
    page = context.new_page()
    page.add_init_script(f"({PAINTS})()")
    page.goto(address)
    page.wait_for_function("() => window.drawn", timeout=120_000)
    times = {
        "received": page.evaluate(RESPONSE),
        "first paint": page.evaluate(FIRST_PAINT),
        "charts drawn": page.evaluate("() => window.drawn"),
    }
    page.close()
    return times


def use_page(context: BrowserContext, address: str, metric: str) -> dict[str, float]:
    """Return the milliseconds until a zoom, a section that is opened, and a filter have drawn their charts."""
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".u-wrap canvas", timeout=120_000)
    zoomed = page.evaluate(ZOOM)
    section = 'details[data-section="weights"]'
    opened = page.evaluate(AFTER, [{"open": section}, f"{section} .u-wrap canvas"])
    times = {"zoomed, all charts in view": zoomed, "section opened": opened}
    found = f'[data-metric="{metric}"] .u-wrap canvas'
    times["filtered"] = page.evaluate(AFTER, [{"filter": metric.replace("/", " ")}, found])
    page.close()
    return times


def measure(chromium: Browser, cookie: str, address: str, rounds: int, metric: str) -> dict[str, list[float]]:
    """Open the page repeatedly; "again" are the times with a filled cache. With a metric's name, also use the page."""
    name, value = cookie.split("=", 1)
    origin = address.split("/", 3)
    cookies: Any = [{"name": name, "value": value, "url": "/".join(origin[:3])}]
    times: dict[str, list[float]] = {}

    def note(measured: dict[str, float], ending: str = "") -> None:
        for what, milliseconds in measured.items():
            times.setdefault(what + ending, []).append(milliseconds)

    for _ in range(rounds):
        context = chromium.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies(cookies)
        note(open_page(context, address))
        note(open_page(context, address), ", again")
        if metric:
            note(use_page(context, address, metric))
        context.close()
    return times


def main() -> None:
    """Fill a database, open the pages, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", type=int, default=5000, help="metrics of the run")
    parser.add_argument("--points", type=int, default=300, help="points of each metric")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    with servers():
        from playwright.sync_api import sync_playwright

        from bench.lib.site.db_fixture import fill as fill_runs
        from tests.chromium import ARGUMENTS
        from tests.suite.browser import find
        from webapp.runs.models import Run
        from webapp.services.addresses import free_port
        from webapp.teams.models import Team, User

        cookie = session()
        team, user = Team.objects.get(), User.objects.get()
        live = fill_runs(team, user, runs=2, trajectories=1000, turns=5000)[0]
        many = Run.objects.create(
            team=team, author=user, title="Thousands of metrics", iteration=options.points, config={"recorded": {}}
        )
        names = metric_names(options.metrics)
        late = next(name for name in reversed(names) if name.startswith("grads/"))
        fill(many, names, options.points)
        port = free_port()
        print(
            f"{machine.describe()}; {options.metrics:,} metrics of {options.points:,} points, {options.rounds} rounds\n"
        )
        with web(port), sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=find(), args=ARGUMENTS)
            site = f"http://localhost:{port}"
            pages = {"live page": f"{site}/runs/{live.slug}/", "curves": f"{site}/runs/{many.slug}/curves"}
            print("| page | | median | slowest |\n| --- | --- | ---: | ---: |")
            for name, address in pages.items():
                times = measure(chromium, cookie, address, options.rounds, late if name == "curves" else "")
                for what, values in times.items():
                    print(f"| {name} | {what} | {statistics.median(values):,.0f} ms | {max(values):,.0f} ms |")
            context = chromium.new_context(extra_http_headers={"Cookie": cookie})
            for name, address in pages.items():
                body = context.request.get(address).body()
                print(
                    f"\n{name}: {len(body) / 1000:,.0f} kB of HTML, {len(gzip.compress(body)) / 1000:,.0f} compressed"
                )
            chromium.close()


if __name__ == "__main__":
    main()
