"""Speed of every page with a full database: server time, queries and weight with 200 runs and 25,000 trajectories.

    python -m bench.pages
    python -m bench.pages --quick    # 20 runs, 2,500 trajectories
    python -m bench.pages --run 25000    # all of them in one run

The pages are those of the permission tests, so that none is missing. Figures are the server's alone: a request and its
response inside one process, every query included. For scale, the first column after the name is the same page of a run
with a dozen trajectories, requested in turn.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lib.site import page_weight
from bench.lib.site.servers import servers
from trainer.studies import machine

if TYPE_CHECKING:
    from django.test import Client

ROUNDS = 20
AIM = 100.0  # milliseconds


@dataclass(frozen=True)
class PageRequest:
    """Measurements of one page: server milliseconds, queries, compressed size of the HTML."""

    name: str
    small: float
    p50: float
    p95: float
    queries: int
    kilobytes: float
    status: int


def ask(client: Client, name: str, path: str, peer: str) -> PageRequest:
    """Request a page twenty times, each with its peer, after two warm-up requests."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client.get(peer)
    client.get(path)
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(path)
    queries = len(captured)
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    times: dict[str, list[float]] = {path: [], peer: []}
    for _ in range(ROUNDS):
        for address in (peer, path):
            began = time.perf_counter()
            client.get(address)
            times[address].append(1000 * (time.perf_counter() - began))
    cuts = statistics.quantiles(times[path], n=20, method="inclusive")
    return PageRequest(
        name=name,
        small=statistics.median(times[peer]),
        p50=statistics.median(times[path]),
        p95=cuts[-1],
        queries=queries,
        kilobytes=len(gzip.compress(body)) / 1000,
        status=answer.status_code,
    )


def main() -> int:
    """Fill the database, measure the pages, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--run", type=int, default=0, help="trajectories of the largest run; default: an equal share")
    parser.add_argument("--json", type=Path)
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
        shared = Client(headers={"host": "localhost"}).get(f"/s/{known['token']}").content
        loads = {"run page": page_weight.first_visit(live), "shared player": page_weight.first_visit(shared)}
    print("| page | small run | p50 | p95 | queries | gzip |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for one in sorted(answers, key=lambda one: -one.p95):
        odd = "" if one.status == 200 else f" (status {one.status})"
        figures = f"{one.small:.0f} ms | {one.p50:.0f} ms | {one.p95:.0f} ms | {one.queries} | {one.kilobytes:.1f} kB"
        print(f"| {one.name}{odd} | {figures} |")
    slow = [one.name for one in answers if one.p95 > AIM]
    print(
        f"\n{len(answers) - len(slow)} of {len(answers)} pages within {AIM:.0f} ms at p95."
        f"{' Slower: ' + ', '.join(slow) if slow else ''}"
    )
    for name, parts in loads.items():
        print(f"{name}: {page_weight.by_kind(parts)['in all'][1] / 1000:.0f} kB compressed at the first visit")
    if options.json:
        facts = {"machine": machine.describe(), "pages": [asdict(one) for one in answers]}
        options.json.write_text(json.dumps(facts, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
