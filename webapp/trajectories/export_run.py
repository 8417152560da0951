"""Exports of a run: trajectories as Parquet or JSON lines, metrics, journal. Streamed in pages.

Rows are read with keyset pagination: no transaction stays open while a slow client reads, and an active run is exported
up to its current state. The columns are documented in docs/sharing.md.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models import Q

from webapp.core.streaming import release_connection
from webapp.runs.models import MetricPoint, Run
from webapp.trajectories.export_document import FORMAT, VERSION, document
from webapp.trajectories.models import Trajectory, Turn

ROW_GROUP = 250
"""Trajectories in memory at a time."""
METRIC_BATCH_SIZE = 20_000

ACTION = pa.struct(
    [
        ("text", pa.string()),
        ("status", pa.string()),
        ("name", pa.string()),
        ("reward", pa.float64()),
        ("effective", pa.bool_()),
        ("actual", pa.string()),
        ("board", pa.string()),
        ("hint", pa.string()),
    ]
)
TURN = pa.struct(
    [
        ("turn", pa.int32()),
        ("state", pa.string()),
        ("response", pa.string()),
        ("thought", pa.string()),
        ("answer", pa.string()),
        ("format_valid", pa.bool_()),
        ("problem", pa.string()),
        ("reward", pa.float64()),
        ("terms", pa.map_(pa.string(), pa.float64())),
        ("tokens", pa.int32()),
        ("truncated", pa.bool_()),
        ("entropy", pa.float64()),
        ("logprob", pa.float64()),
        ("actions", pa.list_(ACTION)),
    ]
)
TRAJECTORIES = pa.schema(
    [
        ("run", pa.string()),
        ("id", pa.string()),
        ("key", pa.string()),
        ("attempt", pa.int32()),
        ("environment", pa.string()),
        ("split", pa.string()),
        ("suite", pa.string()),
        ("iteration", pa.int32()),
        ("group", pa.int32()),
        ("member", pa.int32()),
        ("seed", pa.int64()),
        ("status", pa.string()),
        ("success", pa.bool_()),
        ("end", pa.string()),
        ("total_reward", pa.float64()),
        ("lost_turn", pa.int32()),
        ("lost_action", pa.int32()),
        ("lost_reason", pa.string()),
        ("turn_count", pa.int32()),
        ("action_count", pa.int32()),
        ("token_count", pa.int32()),
        ("format_error", pa.bool_()),
        ("error", pa.string()),
        ("group_mean", pa.float64()),
        ("group_std", pa.float64()),
        ("group_kept", pa.bool_()),
        ("prompt", pa.string()),
        ("board", pa.string()),
        ("hint", pa.string()),
        ("turns", pa.list_(TURN)),
    ],
    metadata={"format": FORMAT, "version": str(VERSION)},
)
METRICS = pa.schema(
    [
        ("name", pa.string()),
        ("iteration", pa.int32()),
        ("tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("value", pa.float64()),
    ]
)


def documents(run: Run) -> Iterator[list[dict[str, Any]]]:
    """The run's current trajectories as documents, in pages, in the order of playing."""
    current = Trajectory.objects.current().filter(run=run).select_related("group").order_by("pk")
    last = 0
    while page := list(current.filter(pk__gt=last)[:ROW_GROUP]):
        turns = defaultdict(list)
        played = Turn.objects.filter(trajectory__in=page).order_by("trajectory_id", "number")
        for trajectory, event in played.values_list("trajectory_id", "event"):
            turns[trajectory].append(event)
        release_connection()
        yield [document(trajectory, turns[trajectory.pk], run.slug) for trajectory in page]
        last = page[-1].pk


def json_lines(run: Run) -> Iterator[bytes]:
    """One document per line."""
    for page in documents(run):
        lines = [json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in page]
        yield ("\n".join(lines) + "\n").encode()


def parquet(run: Run) -> Iterator[bytes]:
    """One row per trajectory with nested turns; each page is a row group."""
    return _parquet(([_row(item) for item in page] for page in documents(run)), TRAJECTORIES)


def metrics_parquet(run: Run) -> Iterator[bytes]:
    """One row per metric and iteration."""
    return _parquet(metric_points(run), METRICS)


def metrics_csv(run: Run) -> Iterator[bytes]:
    """The same as comma-separated values."""
    yield (",".join(METRICS.names) + "\r\n").encode()
    for page in metric_points(run):
        text = io.StringIO()
        csv.DictWriter(text, METRICS.names).writerows(page)
        yield text.getvalue().encode()


def metric_points(run: Run) -> Iterator[list[dict[str, Any]]]:
    """Metric points by name and iteration, in pages."""
    points = MetricPoint.objects.filter(run=run).order_by("name", "iteration").values(*METRICS.names)
    after = Q()
    while page := list(points.filter(after)[:METRIC_BATCH_SIZE]):
        release_connection()
        yield page
        name, iteration = page[-1]["name"], page[-1]["iteration"]
        after = Q(name__gt=name) | Q(name=name, iteration__gt=iteration)


def journal(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The journal up to its last complete line."""
    rest = b""
    for block in blocks:
        block = rest + block
        cut = block.rfind(b"\n") + 1
        rest = block[cut:]
        if cut:
            yield block[:cut]


def _parquet(pages: Iterator[list[dict[str, Any]]], schema: pa.Schema) -> Iterator[bytes]:
    sink = _Sink()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for page in pages:
            writer.write_table(pa.Table.from_pylist(page, schema=schema))
            yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """Buffer of the bytes written since the last take()."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        part = bytes(data)
        self.parts.append(part)
        self.size += len(part)
        return len(part)

    def tell(self) -> int:
        return self.size

    def take(self) -> bytes:
        data = b"".join(self.parts)
        self.parts.clear()
        return data


def _row(item: Mapping[str, Any]) -> dict[str, Any]:
    lost = item["lost_at"] or {}
    return dict(item) | {
        "lost_turn": lost.get("turn"),
        "lost_action": lost.get("action"),
        "lost_reason": lost.get("reason"),
        "board": _json(item["board"]),
        "hint": _json(item["hint"]),
        "turns": [_turn(turn) for turn in item["turns"]],
    }


def _turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    return dict(turn) | {
        "terms": list(turn["terms"].items()),
        "actions": [
            dict(action) | {"board": _json(action.get("board")), "hint": _json(action.get("hint"))}
            for action in turn["actions"]
        ],
    }


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
