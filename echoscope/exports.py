"""Exports of a run as JSON Lines, streamed as the site sends them."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

from echoscope.client import Client
from echoscope.errors import Refused

TOO_LARGE = 413


def trajectory_lines(client: Client, run: str) -> Iterator[str]:
    """Yield the trajectories of a run with their turns, ordered by iteration.

    If the run is larger than the site exports in one request, several parts are exported.
    """
    try:
        yield from _text(client.export_blocks(run, "jsonl"))
    except Refused as refusal:
        if refusal.status != TOO_LARGE:
            raise
        yield from _parts(client, run, 0, client.run(run).iteration)


def metric_lines(client: Client, run: str) -> Iterator[str]:
    """Yield the points of all metrics, by name and iteration."""
    for row in csv.DictReader(_lines(_text(client.export_blocks(run, "metrics.csv")))):
        point: dict[str, Any] = {"name": row["name"], "iteration": int(row["iteration"]), "value": float(row["value"])}
        yield json.dumps(point | {"tokens": int(row["tokens"]), "seconds": float(row["seconds"])}) + "\n"


def _parts(client: Client, run: str, first: int, last: int) -> Iterator[str]:
    """Yield the trajectories of some iterations, in halves if they are too large."""
    try:
        yield from _text(client.export_blocks(run, "jsonl", iteration_min=first, iteration_max=last))
    except Refused as refusal:
        if refusal.status != TOO_LARGE or first >= last:
            raise
        middle = (first + last) // 2
        yield from _parts(client, run, first, middle)
        yield from _parts(client, run, middle + 1, last)


def _text(blocks: Iterable[bytes]) -> Iterator[str]:
    """Decode the blocks, also if a character spans two of them."""
    return codecs.iterdecode(blocks, "utf-8")


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a text in pieces. Only a line feed ends a line."""
    rest = ""
    for text in texts:
        *complete, rest = (rest + text).split("\n")
        yield from (line + "\n" for line in complete)
    if rest:
        yield rest
