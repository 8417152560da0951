"""Token arrays of the journal: stored with their trajectory, excluded from frames, deleted when it is replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.webapp import journal_builder
from trainer.journal import events as journal
from trainer.journal import token_arrays
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import EventBatch, Run
from webapp.trajectories.models import TokenArrays

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def tokens(trajectory: str, count: int = 3, unlearned: journal.Unlearned | None = None) -> journal.TrajectoryTokens:
    numbers = [-0.5] * count
    packed = token_arrays.arrays(
        [count], range(count), [1] * count, numbers, numbers, None if unlearned else numbers, unlearned
    )
    return journal.TrajectoryTokens(
        trajectory=trajectory, tokens=count, unlearned=unlearned, data=token_arrays.pack(packed)
    )


def with_tokens() -> Iterator[journal.Event]:
    """A run of one iteration with token events in the order of the trainer."""
    for event in journal_builder.whole_run(1):
        if isinstance(event, journal.Metrics):
            for group in range(2):
                for member in range(2):
                    yield tokens(f"1-{group}-{member}", unlearned=None if group == 0 else "dropped")
        yield event


def test_tokens_are_stored_in_packed_form(run: Run, folder: Path) -> None:
    journal_builder.write(folder, *with_tokens())
    JournalTailer(run, folder).drain()
    kept = {arrays.trajectory.key: arrays.data for arrays in TokenArrays.objects.select_related("trajectory")}
    assert set(kept) == {"1-0-0", "1-0-1", "1-1-0", "1-1-1"}
    for key, data in kept.items():
        found = token_arrays.unpack(bytes(data))
        assert found.ids.tolist() == [0, 1, 2]
        assert (found.advantages is None) == key.startswith("1-1")


def test_frames_have_events_and_numbers_without_arrays(run: Run, folder: Path) -> None:
    journal_builder.write(folder, *with_tokens())
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    frames = [json.loads(frame) for frame in EventBatch.objects.order_by("last_seq").values_list("frame", flat=True)]
    events = [event for frame in frames for event in frame["events"]]
    assert [event["seq"] for event in events] == list(range(1, run.seq + 1))
    token_events = [event for event in events if event["type"] == "trajectory_tokens"]
    assert len(token_events) == 4
    assert all("data" not in event and event["tokens"] == 3 for event in token_events)


def test_tokens_are_deleted_with_their_replaced_trajectories(run: Run, folder: Path) -> None:
    journal_builder.write(folder, *with_tokens(), journal_builder.started(attempt=2, from_iteration=0, evaluated=0))
    JournalTailer(run, folder).drain()
    assert not TokenArrays.objects.exists()
    journal_builder.write(folder, *journal_builder.iteration(1), tokens("1-0-0", 5))
    JournalTailer(Run.objects.get(pk=run.pk), folder).drain()
    assert [len(token_arrays.unpack(bytes(arrays.data)).ids) for arrays in TokenArrays.objects.all()] == [5]


def test_rereading_the_same_lines_changes_nothing(run: Run, folder: Path) -> None:
    stale = JournalTailer(run, folder)
    journal_builder.write(folder, *with_tokens())
    JournalTailer(run, folder).drain()
    assert stale.drain() == 0
    assert TokenArrays.objects.count() == 4


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([tokens("nobody")], "has the tokens of trajectory nobody, which has not ended"),
        (
            [journal_builder.turn("1-0-0", 0), tokens("1-0-0")],
            "has the tokens of trajectory 1-0-0, which has not ended",
        ),
        (
            [journal_builder.turn("1-0-0", 0), journal_builder.end("1-0-0", 1), tokens("1-0-0"), tokens("1-0-0")],
            "has the tokens of trajectory 1-0-0, again",
        ),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_misplaced_tokens_are_reported(
    run: Run, folder: Path, events: list[journal.Event], complaint: str, at_once: bool
) -> None:
    beginning = [journal_builder.started(), journal_builder.group(1, 0, ["1-0-0"])]
    copies = [event.model_copy() for event in events]
    if at_once:
        journal_builder.write(folder, *beginning, *copies)
        JournalTailer(run, folder).drain()
    else:
        for event in [*beginning, *copies]:
            journal_builder.write(folder, event)
            JournalTailer(Run.objects.get(pk=run.pk), folder).drain()
    run.refresh_from_db()
    assert complaint in run.journal_error
