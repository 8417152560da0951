"""Speed of the site with a full database: every page, searches of the explorer, and the ingest of a journal.

    python -m bench.pages                # 200 runs, 25,000 trajectories, 128,000 turns
    python -m bench.pages --run 25000    # all of the trajectories in one run
    python -m bench.pages --quick        # 20 runs, 2,500 trajectories

The pages are the pages of the permission tests, so that none is missing. Figures are only the server's: a request and
its response inside one process, including every query. For scale, the first column after the name is the same page of a
run with a dozen trajectories, requested in turn. Searches are pages of the explorer of the largest run, also far behind
the first page.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lib.site import page_weight
from bench.lib.site.journal_replay import TRAJECTORIES, played_lines
from bench.lib.site.servers import servers
from trainer.studies import machine

if TYPE_CHECKING:
    from django.test import Client

    from webapp.runs.models import Run
    from webapp.teams.models import Team

ROUNDS = 20
AIM = 100.0  # milliseconds
DEEP = 0.8
"""Position of a deep page in the list."""
SORTS = ("-iteration", "-reward", "tokens")
SEARCHES = (
    "iteration_min=20&iteration_max=60",
    "environment=Sokoban",
    "split=eval",
    "outcome=success",
    "outcome=lost&reason=box_corner",
    "break_turn=2&claims=false",
    "false_claim_kinds=box_position",
    "mark=blunder",
    "reward_min=3&turns_max=4",
    "format=broken",
    "text=box",
    "text={rare}",
    "text=nosuchword",
)


@dataclass(frozen=True)
class PageRequest:
    """Measurements of one page: server milliseconds, queries, compressed size of the HTML.

    Attributes:
        small: median for the same page of a small run; None without one.
    """

    name: str
    small: float | None
    p50: float
    p95: float
    queries: int
    kilobytes: float
    status: int


def ask(client: Client, name: str, path: str, peer: str = "") -> PageRequest:
    """Request a page twenty times, each with its peer if it has one, after two warm-up requests."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    addresses = [peer, path] if peer else [path]
    for address in addresses:
        client.get(address)
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(path)
    queries = len(captured)  # the next request clears the log
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    times: dict[str, list[float]] = {address: [] for address in addresses}
    for _ in range(ROUNDS):
        for address in addresses:
            began = time.perf_counter()
            client.get(address)
            times[address].append(1000 * (time.perf_counter() - began))
    return PageRequest(
        name=name,
        small=statistics.median(times[peer]) if peer else None,
        p50=statistics.median(times[path]),
        p95=statistics.quantiles(times[path], n=20, method="inclusive")[-1],
        queries=queries,
        kilobytes=len(gzip.compress(body)) / 1000,
        status=answer.status_code,
    )


def searches(run: Run) -> Iterator[tuple[str, str]]:
    """Yield names and paths of the explorer's pages: sort orders, each also far behind the first page, and filters.

    Raises:
        ValueError: the explorer no longer has one of the filters.
    """
    from django.http import QueryDict

    from webapp.explorer.trajectory_filters import Filters, filter_trajectories
    from webapp.trajectories.pagination import page

    base = f"/runs/{run.slug}/trajectories"
    everything = filter_trajectories(run, Filters())
    deep = int(DEEP * everything.count())
    for sort in SORTS:
        yield f"sort={sort}", f"{base}?sort={sort}"
        yield f"sort={sort}, after {deep:,}", f"{base}?sort={sort}&at={page(everything, sort, None, deep).next}"
    rare = rare_word(run)
    for search in SEARCHES:
        if errors := Filters.parse(QueryDict(search.format(rare=rare)))[1]:
            raise ValueError(f"{search}: {errors}")
        yield search.format(rare="a rare word"), f"{base}?{search.format(rare=rare)}"


def rare_word(run: Run) -> str:
    """Return the rarest word of one thought."""
    from webapp.explorer.trajectory_filters import search
    from webapp.trajectories.models import Turn

    thought = Turn.objects.filter(trajectory__run=run).order_by("pk")[0].event["thought"]
    words = sorted(set(thought.split(".")[0].split()))
    return min(words, key=lambda word: Turn.objects.filter(words=search(word)).count())


def ingest(team: Team, iterations: int) -> tuple[int, float]:
    """Return the turns of a journal read into a new run, and the seconds that it took.

    Raises RuntimeError if it stops.
    """
    from trainer.config.run import RunConfig
    from trainer.journal.protocol import JOURNAL_FILE
    from webapp.ingest.tailer import JournalTailer
    from webapp.runs.models import Run
    from webapp.trajectories.models import Turn

    config = RunConfig(iterations=iterations + 10).model_dump(mode="json")
    run = Run.objects.create(
        team=team,
        title="Ingested",
        config=config,
        environment="Sokoban",
        iterations=iterations + 10,
        state=Run.State.STARTING,
    )
    run.folder.mkdir(parents=True)
    with (run.folder / JOURNAL_FILE).open("w", encoding="utf-8") as file:
        file.writelines(played_lines(iterations))
    began = time.perf_counter()
    JournalTailer(run).drain()
    seconds = time.perf_counter() - began
    run.refresh_from_db()
    if run.journal_error or run.iteration != iterations:
        raise RuntimeError(f"the journal was not ingested: {run.journal_error or run.iteration}")
    return Turn.objects.filter(trajectory__run=run).count(), seconds


def table(pages: list[PageRequest]) -> str:
    """Return the measurements as Markdown, slowest first."""
    lines = ["| page | small run | p50 | p95 | queries | gzip |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for page in sorted(pages, key=lambda page: -page.p95):
        name = page.name.replace("|", "\\|") + ("" if page.status == 200 else f" (status {page.status})")
        small = "" if page.small is None else f"{page.small:.0f} ms"
        figures = f"{page.p50:.0f} ms | {page.p95:.0f} ms | {page.queries} | {page.kilobytes:.1f} kB"
        lines.append(f"| {name} | {small} | {figures} |")
    return "\n".join(lines)


def main() -> int:
    """Fill the database, measure, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 runs, 2,500 trajectories")
    parser.add_argument("--run", type=int, default=0, help="trajectories of the largest run; default: an equal share")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    runs, trajectories, turns = (20, 2_500, 12_800) if options.quick else (200, 25_000, 128_000)
    with servers():
        from django.conf import settings
        from django.db import connection
        from django.test import Client

        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        settings.ALLOWED_HOSTS = ["*"]
        from bench.lib.site.db_fixture import fill
        from tests.webapp.addresses import ADDRESSES, patterns
        from tests.webapp.conftest import People
        from tests.webapp.full_site_fixture import create_full_site
        from trainer.config.run import RunConfig
        from webapp.runs.models import Run
        from webapp.teams.actions import do_create_team, do_create_user
        from webapp.trajectories.models import Trajectory, Turn

        owner, viewer, outsider = (do_create_user(name, "a long secret") for name in ("ada", "grace", "mallory"))
        team = do_create_team("Agents", owner)
        config = RunConfig(iterations=4)
        config.rollout.groups, config.rollout.group_size = 2, 2
        small = Run.objects.create(
            team=team,
            author=owner,
            title="Trial",
            config=config.model_dump(mode="json"),
            environment="Sokoban",
            iterations=4,
        )
        world = create_full_site(People(team, owner, viewer, outsider), small)
        filled = fill(team, owner, runs=runs, trajectories=trajectories, turns=turns, largest=options.run)
        with connection.cursor() as cursor:
            cursor.execute("CHECKPOINT")  # flush the inserted rows to disk before measuring
        full = filled[0]
        longest = Trajectory.objects.filter(run=full).order_by("-turn_count", "pk").first()
        assert longest is not None
        print(
            f"{machine.describe()}\n\n{Run.objects.count()} runs, {Trajectory.objects.count():,} trajectories, "
            f"{Turn.objects.count():,} turns; {ROUNDS} requests a page\n"
        )
        client = Client(headers={"host": "localhost"})
        client.force_login(owner)
        known = dict(world.known)
        listed = [(name, arguments) for name, arguments in patterns() if name in ADDRESSES and ADDRESSES[name].page]
        peers = {name: world.path(name, arguments, ADDRESSES[name].query) for name, arguments in listed}
        for name, value in known.items():
            if value == small.slug:
                world.known[name] = full.slug
            elif value == world.trajectory.slug and name not in {"slug of revoke"}:
                world.known[name] = longest.slug
        world.known["other"] = longest.group.trajectories.exclude(pk=longest.pk).values_list("slug", flat=True)[0]
        world.known["? of compare"] = "runs=" + ",".join(run.slug for run in filled[:4])
        answers = [
            ask(client, name, world.path(name, arguments, ADDRESSES[name].query), peers[name])
            for name, arguments in listed
        ]
        live = client.get(f"/runs/{full.slug}/").content
        search_pages = [ask(client, name, path) for name, path in searches(full)]
        shared = Client(headers={"host": "localhost"}).get(f"/s/{known['token']}").content
        loads = {"run page": page_weight.first_visit(live), "shared player": page_weight.first_visit(shared)}
        turns, seconds = ingest(team, (2_500 if options.quick else 25_000) // TRAJECTORIES)
    print(f"{table(answers)}\n\n{table(search_pages)}\n")
    everything = answers + search_pages
    slow = [page.name for page in everything if page.p95 > AIM]
    print(
        f"{len(everything) - len(slow)} of {len(everything)} pages within {AIM:.0f} ms at p95."
        f"{' Slower: ' + ', '.join(slow) if slow else ''}"
    )
    print(f"ingest: {turns:,} turns in {seconds:.0f} s, {turns / seconds:,.0f} per second")
    for name, parts in loads.items():
        sums = page_weight.by_kind(parts)
        packed, fonts = (sums[kind][1] / 1000 for kind in (page_weight.WITHOUT_FONTS, page_weight.FONTS))
        print(f"{name}: {packed:.0f} kB compressed at the first visit, and {fonts:.0f} kB of fonts")
    if options.json:
        facts: dict[str, Any] = {"machine": machine.describe(), "ingest": {"turns": turns, "seconds": seconds}}
        facts |= {"pages": [asdict(page) for page in answers], "searches": [asdict(page) for page in search_pages]}
        options.json.write_text(json.dumps(facts, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
