"""Exports of a run: trajectories as Parquet or JSON lines, metrics, journal. Streamed in pages.

Rows are read with keyset pagination: no transaction stays open while a slow client reads, and an active run is exported
up to its current state. The columns are documented in docs/sharing.md.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models import Avg, Count, Max, Min, Q, Sum, TextField
from django.db.models.functions import Cast, Length

from envs.claims.kinds import known_kind
from trainer.publishing import columns
from trainer.publishing.columns import Feature
from webapp.core.formatting import no_formula
from webapp.core.streaming import release_connection
from webapp.runs.models import MetricPoint, Run
from webapp.trajectories.exports.export_document import FORMAT, VERSION, document
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet, Turn
from webapp.trajectories.serialize import MAX_TURNS_LENGTH

ROW_GROUP = 250
"""Maximum number of trajectories in memory at a time."""
PAGE_LENGTH = 8 * 1024 * 1024
"""Maximum characters of JSON of turns in memory at a time, not counting one further trajectory."""
TURNS_READ = 200
"""Number of turns read at a time; the ingest limits the size of each."""
CSV_BATCH_SIZE = 2_000
SAMPLE = 200
"""Number of trajectories whose turns are measured to estimate the size of an export."""
DOCUMENT_BYTES = 1_500
"""Estimated size of a document without prompt and turns."""
METRIC_BATCH_SIZE = 20_000

MARK: dict[str, Feature] = {
    "action": "int32",
    "kind": "string",
    "played": "string",
    "better": ["string"],
    "value": "float64",
    "kept": "float64",
    "loss": "float64",
}
CLAIM: dict[str, Feature] = {"start": "int32", "end": "int32", "true": "bool", "kind": "string"}
IMAGE: dict[str, Feature] = {
    "sha256": "string",
    "media_type": "string",
    "width": "int32",
    "height": "int32",
    "bytes": "int32",
}
TURN: dict[str, Feature] = columns.TURN | {
    "terms": ["string", "float64"],
    "images": [IMAGE],
    "claims": [CLAIM],
    "marks": [MARK],
}
TRAJECTORIES = columns.arrow_schema(
    {
        "run": "string",
        **columns.COLUMNS,
        "key": "string",
        "split": "string",
        "status": "string",
        "end_reason": "string",
        "training_use": "string",
        "mismatch": "float64",
        "format_error": "bool",
        "true_claims": "int32",
        "false_claims": "int32",
        "false_claim_kinds": ["string"],
        "worst_mark": "string",
        "first_mistake_turn": "int32",
        "turns": [TURN],
    },
    format=FORMAT,
    version=str(VERSION),
)
CSV_COLUMNS = [name for name in TRAJECTORIES.names if name not in ("prompt", "board", "hint", "turns")]
METRICS = pa.schema(
    [
        ("name", pa.string()),
        ("iteration", pa.int32()),
        ("tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("value", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Export:
    """The trajectories to export from a run: its current ones, or those selected by filters.

    `inside`: True if the reader is in the run's team.
    """

    run: Run
    inside: bool
    trajectories: TrajectoryQuerySet


def documents(export: Export) -> Iterator[list[dict[str, Any]]]:
    """Yield the trajectories as documents, in pages, in the order of playing.

    A page has at most ROW_GROUP trajectories, and ends at the trajectory with which its turns reach PAGE_LENGTH.
    """
    chosen = export.trajectories.select_related("group").order_by("pk")
    last = 0
    while read := list(chosen.filter(pk__gt=last)[:ROW_GROUP]):
        page, length = [], 0
        for trajectory, events, characters in _with_turns(read):
            page.append(document(trajectory, events, export.run.slug, inside=export.inside))
            length += characters
            if length >= PAGE_LENGTH:
                yield page
                page, length = [], 0
        if page:
            yield page
        last = read[-1].pk


def _with_turns(trajectories: list[Trajectory]) -> Iterator[tuple[Trajectory, list[dict[str, Any]], int]]:
    """Yield each trajectory with its turn events up to MAX_TURNS_LENGTH, and their length as JSON."""
    turns = _turn_texts([trajectory.pk for trajectory in trajectories])
    waiting = next(turns, None)
    for trajectory in trajectories:
        events: list[dict[str, Any]] = []
        length = 0
        judged = trajectory.worst_mark not in (None, Trajectory.WorstMark.UNKNOWN)
        while waiting is not None and waiting[0] == trajectory.pk:
            length += len(waiting[1])
            if length <= MAX_TURNS_LENGTH:
                events.append(
                    json.loads(waiting[1], parse_int=_number) | {"marks": waiting[2] or [] if judged else None}
                )
            waiting = next(turns, None)
        release_connection()
        yield trajectory, events, length


def _number(digits: str) -> int | float:
    """Parse an integer; PostgreSQL writes large floats of JSON as integers, and Arrow converts 64 bits only."""
    value = int(digits)
    return float(value) if 2**63 <= abs(value) < 10**308 else value


def _turn_texts(trajectories: list[int]) -> Iterator[tuple[int, str, list[dict[str, Any]] | None]]:
    """Yield the turn events of trajectories as JSON texts, with their marks; few are in memory at a time."""
    turns = Turn.objects.filter(trajectory__in=trajectories).order_by("trajectory_id", "number")
    rows = turns.values_list("trajectory_id", Cast("event", TextField()), "marks", "number")
    after = Q()
    while read := list(rows.filter(after)[:TURNS_READ]):
        for trajectory, text, marks, _ in read:
            yield trajectory, text, marks
        if len(read) < TURNS_READ:
            return
        trajectory, _, _, number = read[-1]
        after = Q(trajectory_id__gt=trajectory) | Q(trajectory_id=trajectory, number__gt=number)


def estimated_bytes(trajectories: TrajectoryQuerySet) -> int:
    """Estimate the size of an export as JSON lines, from the number of turns and the length of a sample."""
    counted = trajectories.aggregate(count=Count("pk"), turns=Sum("turn_count"), first=Min("pk"), last=Max("pk"))
    if not counted["count"]:
        return 0
    places = range(counted["first"], counted["last"] + 1, max(1, (counted["last"] - counted["first"]) // SAMPLE))
    sample = Turn.objects.filter(trajectory__in=trajectories.filter(pk__in=list(places)[: SAMPLE + 1]).values("pk"))
    if not sample.exists():
        sample = Turn.objects.filter(trajectory__in=trajectories.filter(pk=counted["last"]).values("pk"))
    mean = sample.aggregate(mean=Avg(Length(Cast("event", TextField()))))["mean"] or 0
    prompt = trajectories.filter(pk=counted["last"]).values_list(Length("group__prompt"), flat=True)[0]
    return int((counted["turns"] or 0) * mean + counted["count"] * (prompt + DOCUMENT_BYTES))


def json_lines(export: Export) -> Iterator[bytes]:
    """Yield one document per line."""
    for page in documents(export):
        lines = [json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in page]
        yield ("\n".join(lines) + "\n").encode()


def parquet(export: Export) -> Iterator[bytes]:
    """Yield a Parquet file with one row per trajectory and nested turns; each page is a row group."""
    return _parquet(([_row(item) for item in page] for page in documents(export)), TRAJECTORIES)


def trajectories_csv(export: Export) -> Iterator[bytes]:
    """Yield one line per trajectory, without its turns, prompt and boards."""
    yield (",".join(CSV_COLUMNS) + "\r\n").encode()
    chosen = export.trajectories.select_related("group").order_by("pk")
    last = 0
    while read := list(chosen.filter(pk__gt=last)[:CSV_BATCH_SIZE]):
        release_connection()
        text = io.StringIO()
        writer = csv.writer(text)
        for trajectory in read:
            row = _row(document(trajectory, (), export.run.slug, inside=export.inside))
            row["false_claim_kinds"] = " ".join(row["false_claim_kinds"])
            values = [row[name] for name in CSV_COLUMNS]
            writer.writerow([no_formula(value) if isinstance(value, str) else value for value in values])
        yield text.getvalue().encode()
        last = read[-1].pk


def metrics_parquet(export: Export) -> Iterator[bytes]:
    """Yield a Parquet file with one row per metric and iteration."""
    return _parquet(metric_points(export.run), METRICS)


def metrics_csv(export: Export) -> Iterator[bytes]:
    """Yield the metrics as comma-separated values."""
    yield (",".join(METRICS.names) + "\r\n").encode()
    for page in metric_points(export.run):
        text = io.StringIO()
        csv.DictWriter(text, METRICS.names).writerows(row | {"name": no_formula(row["name"])} for row in page)
        yield text.getvalue().encode()


def metric_points(run: Run) -> Iterator[list[dict[str, Any]]]:
    """Yield pages of metric points, ordered by name and iteration."""
    points = MetricPoint.objects.filter(run=run).order_by("name", "iteration").values(*METRICS.names)
    after = Q()
    while page := list(points.filter(after)[:METRIC_BATCH_SIZE]):
        release_connection()
        yield page
        name, iteration = page[-1]["name"], page[-1]["iteration"]
        after = Q(name__gt=name) | Q(name=name, iteration__gt=iteration)


def journal(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the journal up to its last complete line."""
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
        "turn": turn["turn"],
        "tokens": turn.get("tokens"),
        "terms": list(turn["terms"].items()),
        "claims": None if turn.get("claims") is None else [_claim(claim) for claim in turn["claims"]],
        "actions": [_action(action) for action in turn["actions"]],
    }


def _action(action: Mapping[str, Any]) -> dict[str, Any]:
    call = action.get("call")
    return dict(action) | {
        "board": _json(action.get("board")),
        "hint": _json(action.get("hint")),
        "call": call
        and {
            "tool": call["tool"],
            "arguments": _json(call.get("arguments", {})),
            "result": call["result"],
            "failed": call.get("failed", False),
        },
    }


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {"start": claim["start"], "end": claim["end"], "true": claim["true"], "kind": known_kind(claim.get("kind"))}


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
