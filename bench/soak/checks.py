"""Checks of a disturbed run: journal, database and the clients' events agree, every event exactly once and in order.

Pure functions; each returns the faults it found as sentences.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.journal.protocol import JOURNAL_FILE

MOST = 5  # faults of one kind that are listed


@dataclass(frozen=True)
class Cut:
    """A power cut: while `rebuilds` was current, the journal was cut so that `lines` whole lines were left."""

    rebuilds: int
    lines: int


@dataclass
class Received:
    """Consecutive events of one client, between two snapshots.

    Attributes:
        rebuilds: number of rebuilds of the run, from the snapshot before them.
        after: last event that the snapshot contained.
        events: (seq, digest) in the order of arrival.
    """

    rebuilds: int
    after: int
    events: list[tuple[int, str]] = field(default_factory=list)


def digest(event: Mapping[str, Any]) -> str:
    """Return the digest of the parts of an event that journal and frames share: without slugs and token arrays."""
    kept = {name: value for name, value in event.items() if name != "slugs"}
    if event.get("type") == "trajectory_tokens":
        kept = {name: kept[name] for name in ("seq", "type", "trajectory", "tokens") if name in kept}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def journal_digests(path: Path) -> tuple[list[str], list[str]]:
    """Return digests of all lines, and faults: unreadable lines, wrong line numbers, lines without an end."""
    digests, faults = [], []
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        faults.append("the journal ends within a line")
    for number, line in enumerate(data.splitlines(), 1):
        try:
            event = json.loads(line)
        except ValueError:
            faults.append(f"line {number} of the journal is not JSON")
            digests.append("")
            continue
        if event.get("seq") != number:
            faults.append(f"line {number} of the journal has the number {event.get('seq')}")
        digests.append(digest(event))
    return digests, faults[:MOST]


def attempts(path: Path) -> list[int]:
    """Return the numbers of the attempts in the order of the journal; lines that are not JSON are left out."""
    numbers = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if event["type"] == "run_started":
                numbers.append(event["attempt"])
    return numbers


def frame_faults(frames: Iterable[tuple[int, int, str]], journal: Sequence[str]) -> list[str]:
    """Compare the stored frames (first, last, text), in the order of `first`, with the digests of the journal."""
    faults = []
    expected = 1
    for first, last, text in frames:
        if first != expected:
            what = "lost" if first > expected else "stored twice"
            low, high = sorted((first, expected))
            faults.append(f"events {low} to {high - 1} are {what} in the database")
        events = json.loads(text)["events"]
        if [event["seq"] for event in events] != list(range(first, last + 1)):
            faults.append(f"the frame of events {first} to {last} holds {[event['seq'] for event in events]}")
        faults += [
            f"event {event['seq']} of the database is not that of the journal"
            for event in events
            if not 0 < event["seq"] <= len(journal) or digest(event) != journal[event["seq"] - 1]
        ]
        expected = last + 1
    if expected != len(journal) + 1:
        faults.append(f"the database ends at event {expected - 1}, the journal at {len(journal)}")
    return faults[:MOST]


def client_faults(
    segments: Iterable[Received], journal: Sequence[str], cuts: Iterable[Cut], rebuilds: int
) -> list[str]:
    """Compare the events of one client with the journal.

    Args:
        segments: events received between its snapshots.
        journal: digests of the final journal.
        cuts: power cuts of the run. Events after a cut were replaced by others with the same numbers.
        rebuilds: number of rebuilds of the run at the end.
    """
    cuts, faults = list(cuts), []
    for segment in segments:
        kept = [cut.lines for cut in cuts if cut.rebuilds >= segment.rebuilds]
        sound = len(journal) if segment.rebuilds == rebuilds else min(kept, default=len(journal))
        previous = segment.after
        for seq, content in segment.events:
            if seq != previous + 1:
                what = "missed" if seq > previous + 1 else "received twice or out of order"
                faults.append(f"a client {what} an event: {seq} came after {previous}")
            if seq <= sound and (seq > len(journal) or content != journal[seq - 1]):
                faults.append(f"a client received event {seq}, which is not that of the journal")
            previous = seq
    return faults[:MOST]


def reached_end(segments: Sequence[Received], journal: Sequence[str]) -> bool:
    """Return True if the client's last event is the journal's."""
    if not segments:
        return False
    last = segments[-1]
    return (last.events[-1][0] if last.events else last.after) == len(journal)


def copy_faults(copy: Path, folder: Path) -> list[str]:
    """Compare a run's copy in object storage with its folder: the journal, and the files that the copy lists."""
    try:
        manifest = json.loads((copy / "manifest.json").read_text())
    except FileNotFoundError:
        return ["it has no copy in the object storage"]
    ends = manifest["journal"]
    parts = [copy / "journal" / f"{start:015d}" for start in [0, *ends[:-1]]]
    journal = b"".join(part.read_bytes() for part in parts)
    faults = [] if journal == (folder / JOURNAL_FILE).read_bytes() else ["the journal of its copy is another one"]
    for path in manifest["files"]:
        if not (folder / path).exists():
            faults.append(f"its copy has {path}, which its folder lacks")
        elif (copy / path).read_bytes() != (folder / path).read_bytes():
            faults.append(f"{path} of its copy is another one")
    newest = max(folder.glob("checkpoints/[0-9]*/state.json"), default=None)
    if newest is not None and str(newest.relative_to(folder)) not in manifest["files"]:
        faults.append("its copy lacks the newest checkpoint")
    return faults[:MOST]


def weights_digest(folder: Path) -> str:
    """Return the SHA-256 of the newest checkpoint's weights; empty if there is none."""
    newest = sorted(folder.glob("checkpoints/[0-9]*/model.safetensors"))
    return hashlib.sha256(newest[-1].read_bytes()).hexdigest() if newest else ""
