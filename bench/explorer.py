"""Speed of the trajectory explorer: search, sorting, pagination and counts of a run with 25,000 trajectories.

    python -m bench.explorer             # 25,000 trajectories and 128,000 turns in the run, 5,000 more in the others
    python -m bench.explorer --quick     # a tenth of it
    python -m bench.explorer --large     # 100,000 trajectories in the run, filters only
    python -m bench.explorer --explain   # print PostgreSQL's query plans as well
    python -m bench.explorer --ingest    # cost of the search column and of indexes for the ingest

Figures are query times as the site sends the queries, without the page around them. The peer of each deep page is the
same page by OFFSET, measured in turn with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lib.site import explorer_ingest
from bench.lib.site.servers import servers
from trainer.studies import machine

if TYPE_CHECKING:
    from webapp.runs.models import Run

ROUNDS = 15
SIZE = 50
DEEP = 0.8  # position of the deep page in the list
FILTERS = (
    "",
    "iteration_min=20&iteration_max=60",
    "environment=Sokoban",
    "split=eval",
    "suite=Sokoban",
    "group_number=4",
    "outcome=success",
    "outcome=lost",
    "reason=box_corner",
    "break_turn=2&claims=false",
    "false_claim_kinds=box_position",
    "mark=blunder",
    "truth_min=50",
    "reward_min=3",
    "turns_max=4",
    "tokens_min=200",
    "format=broken",
    "kept=yes",
    "alarm=yes",
    "text=box",
    "text={rare}",
    "text=box+-{rare}",
    "text=nosuchword",
)


@dataclass(frozen=True)
class Quantiles:
    """Median and 95th percentile in milliseconds."""

    p50: float
    p95: float

    def __str__(self) -> str:
        return f"{self.p50:.1f} / {self.p95:.1f}"


def timed(*asks: Callable[[], Any], rounds: int = ROUNDS) -> list[Quantiles]:
    """Time each callable `rounds` times, in turn."""
    taken: list[list[float]] = [[] for _ in asks]
    for _ in range(rounds):
        for times, ask in zip(taken, asks, strict=True):
            began = time.perf_counter()
            ask()
            times.append(1000 * (time.perf_counter() - began))
    return [Quantiles(statistics.median(times), statistics.quantiles(times, n=20)[-1]) for times in taken]


def sorts(run: Run) -> list[dict[str, Any]]:
    """Every sort order in both directions: first page, a deep page, and the same page by OFFSET."""
    from webapp.explorer.trajectory_filters import SORTS, Filters, filter_trajectories, page

    result = []
    everything = filter_trajectories(run, Filters()).select_related("group")
    deep = int(DEEP * everything.count())
    for name in SORTS:
        for sort in (name, f"-{name}"):
            cursor = page(everything, sort, None, deep).next
            key = everything.annotate(sort_key=SORTS[name]).order_by(sort.replace(name, "sort_key"), "pk")
            first, later, offset = timed(
                lambda sort=sort: page(everything, sort, None, SIZE),
                lambda sort=sort, cursor=cursor: page(everything, sort, cursor, SIZE),
                lambda key=key: list(key[deep : deep + SIZE + 1]),
            )
            ratio = later.p50 / offset.p50
            result.append({"sort": sort, "first": first, "deep": later, "offset": offset, "ratio": ratio})
    return result


def filtered(run: Run) -> list[dict[str, Any]]:
    """Every kind of filter: first page in the default order and by reward, and the counts."""
    from django.http import QueryDict

    from webapp.explorer.counts import facts
    from webapp.explorer.facets import survey
    from webapp.explorer.trajectory_filters import Filters, filter_trajectories, page

    result = []
    rare = rare_word(run)
    for text in FILTERS:
        query = text.format(rare=rare)
        filters, errors = Filters.parse(QueryDict(query))
        if errors:
            raise SystemExit(f"{query}: {errors}")
        trajectories = filter_trajectories(run, filters).select_related("group")
        usual, by_reward, counted, surveyed = timed(
            lambda trajectories=trajectories: page(trajectories, "-iteration", None, SIZE),
            lambda trajectories=trajectories: page(trajectories, "-reward", None, SIZE),
            lambda filters=filters: facts(run, filters),
            lambda filters=filters: survey(run, filters),
        )
        counts = facts(run, filters)
        number = f"more than {counts.found:,}" if counts.more else f"{counts.found:,}"
        times = {"page": usual, "reward": by_reward, "facts": counted, "facets": surveyed}
        result.append({"filter": text or "none", "found": number} | times)
    return result


def rare_word(run: Run) -> str:
    """The rarest word of one thought."""
    from webapp.explorer.trajectory_filters import search
    from webapp.trajectories.models import Turn

    turn = Turn.objects.filter(trajectory__run=run).order_by("pk").first()
    if turn is None:
        raise SystemExit("nothing was played")
    words = sorted(set(turn.event["thought"].split(".")[0].split()))
    return min(words, key=lambda word: Turn.objects.filter(words=search(word)).count())


def explain(run: Run) -> None:
    """Print the query plans."""
    from webapp.explorer.trajectory_filters import Filters, filter_trajectories

    for title, filters, order in (
        ("the usual order", Filters(), "-iteration"),
        ("by reward", Filters(), "-total_reward"),
        ("by tokens, which has no index", Filters(), "-token_count"),
        ("a common word", Filters(text="box"), "-iteration"),
        ("a rare word", Filters(text=rare_word(run)), "-iteration"),
    ):
        print(f"\n{title}\n")
        print(filter_trajectories(run, filters).order_by(order, "pk")[: SIZE + 1].explain(analyze=True, buffers=True))


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the explorer: search, sorting, pagination, counts.")
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    parser.add_argument("--large", action="store_true", help="100,000 trajectories, filters only")
    parser.add_argument("--explain", action="store_true", help="print the query plans")
    parser.add_argument("--ingest", action="store_true", help="cost of the search column and of indexes for the ingest")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    if options.ingest:
        explorer_ingest.measure(options.quick, options.json)
        return
    share = 10 if options.quick else 1
    with servers():
        from bench.lib.site.db_fixture import fill
        from webapp.teams.actions import do_create_team, do_create_user
        from webapp.trajectories.models import Trajectory, Turn

        ada = do_create_user("ada", "a long secret")
        run = fill(
            do_create_team("Agents", ada),
            ada,
            runs=20 if options.large else 200 // share,
            trajectories=102_000 if options.large else 30_000 // share,
            turns=300_000 if options.large else 153_600 // share,
            largest=100_000 if options.large else 25_000 // share,
        )[0]
        own = Turn.objects.filter(trajectory__run=run).count()
        size = (
            f"{Trajectory.objects.filter(run=run).count():,} trajectories and {own:,} turns in the run, "
            f"{Trajectory.objects.count():,} and {Turn.objects.count():,} in all"
        )
        ordered, filters = [] if options.large else sorts(run), filtered(run)
        print(f"{machine.describe()}\n\n{size}; milliseconds, p50 / p95 of {ROUNDS}\n")
        print("| order | first page | deep page | the same by OFFSET | ratio |\n| --- | ---: | ---: | ---: | ---: |")
        for row in ordered:
            print(f"| {row['sort']} | {row['first']} | {row['deep']} | {row['offset']} | {row['ratio']:.2f} |")
        print(
            "\n| filter | found | page | page by reward | facts | facets |\n| --- | ---: | ---: | ---: | ---: | ---: |"
        )
        for row in filters:
            times = " | ".join(str(row[name]) for name in ("page", "reward", "facts", "facets"))
            print(f"| {row['filter']} | {row['found']} | {times} |")
        if options.explain:
            explain(run)
    if options.json:
        figures = {"machine": machine.describe(), "size": size, "sorts": ordered, "filters": filters}
        options.json.write_text(json.dumps(figures, indent=1, default=asdict))


if __name__ == "__main__":
    main()
