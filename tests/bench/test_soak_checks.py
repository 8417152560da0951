"""Checks of the soak test: each of them fails on an event that is lost, doubled, reordered or changed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage

from bench.soak import checks, disturbances, network, wrong_clock
from bench.soak.checks import Cut, Received
from bench.soak.wrong_clock import set_error
from tests.patience import SECONDS
from trainer.journal.protocol import JOURNAL_FILE
from webapp.runs import object_storage
from webapp.services.addresses import LOOPBACK, free_port

EVENTS: list[dict[str, Any]] = [
    {"type": "run_started", "attempt": 1},
    {"type": "group_started", "members": ["a"]},
    {"type": "turn", "trajectory": "a", "turn": 0},
    {"type": "trajectory_tokens", "trajectory": "a", "tokens": 3, "data": "eJxj"},
    {"type": "checkpoint", "iteration": 1},
    {"type": "turn", "trajectory": "a", "turn": 1},
    {"type": "run_finished", "reason": "completed"},
]


def numbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event | {"seq": seq} for seq, event in enumerate(events, 1)]


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    return path


def stored(*batches: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(batch[0]["seq"], batch[-1]["seq"], json.dumps({"events": batch})) for batch in batches]


def received(events: list[dict[str, Any]], after: int = 0, rebuilds: int = 0) -> Received:
    return Received(rebuilds, after, [(event["seq"], checks.digest(event)) for event in events])


@pytest.fixture
def journal(tmp_path: Path) -> list[str]:
    digests, faults = checks.journal_digests(written(tmp_path / "journal.jsonl", numbered(EVENTS)))
    assert not faults
    return digests


def test_equal_journal_database_and_client_have_no_fault(journal: list[str]) -> None:
    events = numbered(EVENTS)
    with_slugs = [event | ({"slugs": ["x"]} if event["type"] == "group_started" else {}) for event in events]
    without_data = [{name: event[name] for name in event if name != "data"} for event in with_slugs]
    assert checks.frame_faults(stored(without_data[:3], without_data[3:]), journal) == []
    segments = [received(without_data[:2]), received(without_data[4:], after=4)]
    assert checks.client_faults(segments, journal, [], 0) == []
    assert checks.reached_end(segments, journal)


@pytest.mark.parametrize(
    "change",
    [
        lambda events: events[:2] + events[3:],
        lambda events: [*events[:3], events[2], *events[3:]],
        lambda events: [*events[:2], events[3], events[2], *events[4:]],
        lambda events: [*events[:2], events[2] | {"turn": 7}, *events[3:]],
    ],
    ids=["lost", "doubled", "reordered", "changed"],
)
def test_every_difference_is_a_fault(journal: list[str], tmp_path: Path, change: Any) -> None:
    events = change(numbered(EVENTS))
    assert checks.frame_faults(stored(events), journal)
    assert checks.frame_faults(stored(*([event] for event in events)), journal)
    assert checks.client_faults([received(events)], journal, [], 0)
    digests, faults = checks.journal_digests(written(tmp_path / "other.jsonl", events))
    assert faults or digests != journal


def test_a_missing_end_and_a_broken_line_are_faults(journal: list[str], tmp_path: Path) -> None:
    events = numbered(EVENTS)
    assert checks.frame_faults(stored(events[:-1]), journal) == ["the database ends at event 6, the journal at 7"]
    assert not checks.reached_end([received(events[:-1])], journal)
    path = written(tmp_path / "journal.jsonl", events)
    path.write_bytes(path.read_bytes()[:-5])
    assert "the journal ends within a line" in checks.journal_digests(path)[1]


def test_events_after_a_power_cut_may_have_been_replaced_but_none_before_it(journal: list[str]) -> None:
    events = numbered(EVENTS)
    old = [*events[:4], *(event | {"time": 1} for event in events[4:])]
    segments = [received(old), received(events[5:], after=5, rebuilds=1)]
    assert checks.client_faults(segments, journal, [Cut(0, 4)], 1) == []
    assert checks.client_faults(segments, journal, [Cut(0, 5)], 1)
    assert checks.client_faults([received(old, rebuilds=1)], journal, [Cut(0, 4)], 1)


@pytest.mark.parametrize("position, left", [(0.0, 4), (0.999, 6)])
def test_a_power_cut_spares_what_was_synced_before_the_checkpoint(tmp_path: Path, position: float, left: int) -> None:
    path = written(tmp_path / "journal.jsonl", numbered(EVENTS))
    assert disturbances.cut_journal(tmp_path, position) == left
    assert path.read_bytes().count(b"\n") == left


def test_no_journal_is_cut_while_its_newest_checkpoint_is_not_in_it(tmp_path: Path) -> None:
    path = written(tmp_path / "journal.jsonl", numbered(EVENTS))
    newer = tmp_path / "checkpoints/000002"
    newer.mkdir(parents=True)
    (newer / "state.json").write_text("{}")
    before = path.read_bytes()
    assert disturbances.cut_journal(tmp_path, 0.0) is None
    assert path.read_bytes() == before


def test_the_plan_follows_from_the_seed_and_begins_with_every_kind() -> None:
    first, second, other = ([next(order) for _ in range(60)] for order in map(disturbances.plan, (1, 1, 2)))
    assert first == second != other
    assert {name for name, _ in first[: len(disturbances.KINDS)]} == disturbances.KINDS.keys()


async def test_the_proxy_forwards_is_silent_and_resets() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            while data := await reader.read(100):
                writer.write(data)
        writer.close()

    port = free_port()
    server = await asyncio.start_server(echo, LOOPBACK, port)
    proxy = network.Proxy(lambda: port)
    await proxy.start()
    reader, writer = await asyncio.open_connection(LOOPBACK, proxy.port)
    writer.write(b"one")
    assert await reader.readexactly(3) == b"one"
    await proxy.set_weather(network.Weather.SILENT)
    writer.write(b"two")
    waiting = asyncio.create_task(reader.readexactly(3))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await proxy.set_weather(network.Weather.FINE)
    assert await waiting == b"two"
    await proxy.reset()
    with pytest.raises(ConnectionResetError):
        await reader.readexactly(1)
    writer.close()
    await proxy.close()
    server.close()


def test_a_wrong_clock_shifts_the_time_and_keeps_the_types(tmp_path: Path) -> None:
    (tmp_path / "shows.py").write_text(
        "import sys, time\nfrom datetime import UTC, datetime, timedelta\n"
        "print(time.monotonic())\n"
        "for line in sys.stdin:\n"
        "    now = datetime.now(UTC)\n"
        "    assert isinstance(now, datetime) and isinstance(datetime(2026, 1, 1), datetime)\n"
        "    assert datetime.fromtimestamp(0, UTC).year == 1970 and not isinstance('', datetime)\n"
        "    print(time.time(), (now + timedelta()).timestamp(), time.time_ns() / 1e9, flush=True)\n"
    )
    clock = tmp_path / "clock"
    set_error(clock, 7200.0)
    shows = subprocess.Popen(
        [sys.executable, wrong_clock.__file__, str(clock), "shows"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shows.stdin is not None
    assert shows.stdout is not None
    assert abs(float(shows.stdout.readline()) - time.monotonic()) < SECONDS
    for error in (7200.0, -86_400.0, 0.0):  # the clock of the running process jumps
        set_error(clock, error)
        print(file=shows.stdin, flush=True)
        shown = [float(word) - time.time() - error for word in shows.stdout.readline().split()]
        assert len(shown) == 3
        assert all(abs(difference) < SECONDS for difference in shown)
    shows.communicate()


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, Path]:
    """The copy of a run as the product makes it, and its folder."""
    folder, storage = tmp_path / "run", FileSystemStorage(tmp_path / "storage", allow_overwrite=True)
    (folder / "checkpoints/000001").mkdir(parents=True)
    (folder / "checkpoints/000001/state.json").write_text("{}")
    (folder / JOURNAL_FILE).write_bytes(b"one\ntwo\n")
    first = object_storage.copy(folder, storage, "run", object_storage.Manifest())
    (folder / JOURNAL_FILE).write_bytes(b"one\ntwo\nthree\n")
    object_storage.copy(folder, storage, "run", first)
    return tmp_path / "storage/run", folder


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda copy, folder: None, None),
        (lambda copy, folder: (copy / "manifest.json").unlink(), "no copy"),
        (lambda copy, folder: (folder / JOURNAL_FILE).write_bytes(b"one\nTWO\nthree\n"), "journal"),
        (lambda copy, folder: (folder / "checkpoints/000001/state.json").unlink(), "its folder lacks"),
        (lambda copy, folder: (copy / "checkpoints/000001/state.json").write_text("?"), "another one"),
        (lambda copy, folder: newer_checkpoint(folder), "lacks the newest checkpoint"),
    ],
)
def test_a_copy_that_differs_from_its_run_is_a_fault(copied: tuple[Path, Path], change: Any, fault: str | None) -> None:
    change(*copied)
    found = checks.copy_faults(*copied)
    assert len(found) == (fault is not None)
    assert all(fault and fault in each for each in found)


def newer_checkpoint(folder: Path) -> None:
    (folder / "checkpoints/000002").mkdir()
    (folder / "checkpoints/000002/state.json").write_text("{}")
