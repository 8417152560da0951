"""How long does the explorer take to find, sort, turn a page and count? One run of 25,000 trajectories among 200 runs.

    python -m bench.explorer             # 25,000 trajectories and 128,000 turns in the run, 5,000 more in the others
    python -m bench.explorer --quick     # a tenth of it
    python -m bench.explorer --explain   # and PostgreSQL's plans of the ways a page is found

Every figure is the database's answer as the site asks for it, without the page around it. The peer of each page deep in
the list is the same page by OFFSET, asked for in turn with it.
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

from bench.run_page import servers
from trainer.studies import machine

if TYPE_CHECKING:
    from webapp.runs.models import Run

ROUNDS = 15
SIZE = 50
DEEP = 0.8  # how far into the list the deep page lies
FILTERS = (
    "",
    "iteration_min=20&iteration_max=60",
    "environment=Sokoban",
    "split=eval",
    "suite=Sokoban",
    "group=3",
    "outcome=success",
    "outcome=lost",
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
class Timed:
    """Milliseconds."""

    p50: float
    p95: float

    def __str__(self) -> str:
        return f"{self.p50:.1f} / {self.p95:.1f}"


def timed(*asks: Callable[[], Any], rounds: int = ROUNDS) -> list[Timed]:
    """Each of them so often, in turn."""
    taken: list[list[float]] = [[] for _ in asks]
    for _ in range(rounds):
        for times, ask in zip(taken, asks, strict=True):
            began = time.perf_counter()
            ask()
            times.append(1000 * (time.perf_counter() - began))
    return [Timed(statistics.median(times), statistics.quantiles(times, n=20)[-1]) for times in taken]


def sorts(run: Run) -> list[dict[str, Any]]:
    """Every order both ways: the first page, one deep in the list, and that one by OFFSET."""
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
    """Every kind of filter: its first page in the usual order, by reward, and the facts above it."""
    from django.http import QueryDict

    from webapp.explorer.counts import facts
    from webapp.explorer.trajectory_filters import Filters, filter_trajectories, page

    result = []
    rare = rare_word(run)
    for text in FILTERS:
        query = text.format(rare=rare)
        filters, errors = Filters.parse(QueryDict(query))
        if errors:
            raise SystemExit(f"{query}: {errors}")
        wanted = filter_trajectories(run, filters).select_related("group")
        usual, by_reward, counted = timed(
            lambda wanted=wanted: page(wanted, "-iteration", None, SIZE),
            lambda wanted=wanted: page(wanted, "-reward", None, SIZE),
            lambda filters=filters: facts(run, filters),
        )
        told = facts(run, filters)
        number = f"more than {told.found:,}" if told.more else f"{told.found:,}"
        result.append({"filter": text or "none", "found": number, "page": usual, "reward": by_reward, "facts": counted})
    return result


def rare_word(run: Run) -> str:
    """The rarest word of some thought."""
    from webapp.explorer.trajectory_filters import search
    from webapp.trajectories.models import Turn

    turn = Turn.objects.filter(trajectory__run=run).order_by("pk").first()
    if turn is None:
        raise SystemExit("nothing was played")
    said = sorted(set(turn.event["thought"].split(".")[0].split()))
    return min(said, key=lambda word: Turn.objects.filter(words=search(word)).count())


def explain(run: Run) -> None:
    """The plans behind the figures."""
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
    parser = argparse.ArgumentParser(description="How long the explorer takes to find, sort, turn pages and count.")
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    parser.add_argument("--explain", action="store_true", help="print the plans, too")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    share = 10 if options.quick else 1
    with servers():
        from bench.lib.db_fixture import fill
        from webapp.teams.actions import do_create_team, do_create_user
        from webapp.trajectories.models import Trajectory, Turn

        ada = do_create_user("ada", "a long secret")
        run = fill(
            do_create_team("Agents", ada),
            ada,
            runs=200 // share,
            trajectories=30_000 // share,
            turns=153_600 // share,
            largest=25_000 // share,
        )[0]
        own = Turn.objects.filter(trajectory__run=run).count()
        size = (
            f"{Trajectory.objects.filter(run=run).count():,} trajectories and {own:,} turns in the run, "
            f"{Trajectory.objects.count():,} and {Turn.objects.count():,} in all"
        )
        ordered, found = sorts(run), filtered(run)
        print(f"{machine.describe()}\n\n{size}; milliseconds, p50 / p95 of {ROUNDS}\n")
        print("| order | first page | deep page | the same by OFFSET | ratio |\n| --- | ---: | ---: | ---: | ---: |")
        for row in ordered:
            print(f"| {row['sort']} | {row['first']} | {row['deep']} | {row['offset']} | {row['ratio']:.2f} |")
        print("\n| filter | found | page | page by reward | facts |\n| --- | ---: | ---: | ---: | ---: |")
        for row in found:
            print(f"| {row['filter']} | {row['found']} | {row['page']} | {row['reward']} | {row['facts']} |")
        if options.explain:
            explain(run)
    if options.json:
        figures = {"machine": machine.describe(), "size": size, "sorts": ordered, "filters": found}
        options.json.write_text(json.dumps(figures, indent=1, default=asdict))


if __name__ == "__main__":
    main()
