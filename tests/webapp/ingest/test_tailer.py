"""The journal is stored exactly once, in any chunking, and a broken line stops only its own run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.webapp import journal_builder
from trainer.journal import events as journal
from trainer.journal import reader
from trainer.journal.protocol import JOURNAL_FILE
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Alarm, Checkpoint, Evaluation, EventBatch, MetricPoint, Notice, Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Group, Trajectory, Turn

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def facts(run: Run) -> dict[str, object]:
    """All rows of a run, without random ids."""
    run.refresh_from_db()
    trajectories = run.trajectories.order_by("key", "attempt")
    return {
        "run": [run.seq, run.journal_offset, run.attempt, run.iteration, run.phase, run.end_reason, run.journal_error],
        "groups": list(run.groups.order_by("iteration", "split", "number").values_list("number", "mean", "kept")),
        "trajectories": list(
            trajectories.values_list(
                "key",
                "status",
                "turn_count",
                "action_count",
                "token_count",
                "format_error",
                "total_reward",
                "last_seq",
                "finished_seq",
                "superseded",
            )
        ),
        "turns": list(Turn.objects.filter(trajectory__run=run).order_by("seq").values_list("seq", "number", "event")),
        "metrics": list(run.metrics.order_by("iteration", "name").values_list("iteration", "name", "value", "tokens")),
        "others": [
            list(model.objects.filter(run=run).order_by("iteration").values_list("iteration", flat=True))
            for model in (Alarm, Checkpoint, Evaluation)
        ],
        "notices": list(run.notices.order_by("seq").values_list("message", flat=True)),
    }


def events_of(run: Run) -> list[dict[str, object]]:
    frames = EventBatch.objects.filter(run=run).order_by("last_seq").values_list("frame", flat=True)
    return [event for frame in frames for event in json.loads(frame)["events"]]


def test_a_complete_run_is_stored_with_every_turn_once(run: Run, folder: Path) -> None:
    path = journal_builder.write(folder, *journal_builder.whole_run(2))
    count = JournalTailer(run, folder).drain()
    recorded = list(reader.read(path))
    run.refresh_from_db()
    assert count == len(recorded) == run.seq
    assert run.journal_offset == path.stat().st_size
    assert Turn.objects.count() == sum(isinstance(event, journal.Turn) for event in recorded)
    assert Trajectory.objects.filter(status="success").count() == 8
    assert Trajectory.objects.get(key="1-0-1").lost_at["reason"] == "the box is in a corner"
    assert Group.objects.get(iteration=2, split="train", number=0).kept is True
    assert Group.objects.get(iteration=2, split="train", number=1).kept is False
    assert (run.iteration, run.device) == (2, "CPU, 1 thread")
    assert (run.end_reason, run.summary) == ("completed", {"success": 0.5})
    assert list(Checkpoint.objects.values_list("iteration", flat=True)) == [2]
    assert Evaluation.objects.count() == 2


def test_frames_contain_journal_lines_and_trajectory_urls(run: Run, folder: Path) -> None:
    path = journal_builder.write(folder, *journal_builder.whole_run(1))
    JournalTailer(run, folder).drain()
    sent = events_of(run)
    assert [event["seq"] for event in sent] == list(range(1, len(sent) + 1))
    slugs = dict(Trajectory.objects.values_list("key", "slug"))
    for event, line in zip(sent, path.read_text().splitlines(), strict=True):
        if event["type"] == "group_started":
            assert event.pop("slugs") == [slugs[key] for key in event["members"]]
        assert event == json.loads(line)


def test_rereading_from_the_same_offset_adds_nothing(run: Run, folder: Path) -> None:
    journal_builder.write(folder, *journal_builder.whole_run(1))
    late = JournalTailer(run, folder)
    JournalTailer(run, folder).drain()
    before = facts(run)
    assert late.drain() == 0
    assert facts(run) == before


def test_two_concurrent_readers_store_each_line_once(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.ingest.tailer.BATCH_BYTES", 3000)
    journal_builder.write(folder, *journal_builder.whole_run(2))
    one, two = JournalTailer(run, folder), JournalTailer(run, folder)
    while one.step() + two.step():
        pass
    sent = events_of(run)
    assert [event["seq"] for event in sent] == list(range(1, len(sent) + 1))
    assert Turn.objects.count() == sum(event["type"] == "turn" for event in sent)


def test_an_incomplete_line_waits(run: Run, folder: Path) -> None:
    path = journal_builder.write(
        folder, journal_builder.started(), journal_builder.group(1, 0, ["a"]), journal_builder.turn("a", 0)
    )
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    ingest = JournalTailer(run, folder)
    assert ingest.drain() == 2
    path.write_bytes(data)
    assert ingest.drain() == 1
    assert Turn.objects.count() == 1


def test_a_line_longer_than_a_batch_is_read_whole(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.ingest.tailer.BATCH_BYTES", 500)
    journal_builder.write(
        folder,
        journal_builder.started(),
        journal_builder.group(1, 0, ["a"]),
        journal_builder.turn("a", 0, thought="long " * 5000),
    )
    assert JournalTailer(run, folder).drain() == 3
    assert len(Turn.objects.get().event["thought"]) == 25_000


@pytest.fixture
def in_one_piece(run: Run, folder: Path) -> Run:
    """A run of two attempts whose whole journal was read at once."""
    again = [journal_builder.started(2, 1, 0), *journal_builder.iteration(2)]
    journal_builder.write(folder, *journal_builder.whole_run(2), *again)
    reference = Run.objects.create(team=run.team, title="whole", config={}, environment="Sokoban")
    JournalTailer(reference, folder).drain()
    return reference


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.floats(0, 1), max_size=12), batch=st.sampled_from([200, 2_000, 20_000, 1_000_000]))
def test_any_chunking_of_a_journal_gives_the_same_rows(
    run: Run, folder: Path, in_one_piece: Run, cuts: list[float], batch: int
) -> None:
    data = (folder / JOURNAL_FILE).read_bytes()
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr("webapp.ingest.tailer.BATCH_BYTES", batch)
        parts = Run.objects.create(team=run.team, title="parts", config={}, environment="Sokoban")
        growing = Path(place) / "parts" / JOURNAL_FILE
        growing.parent.mkdir()
        for cut in [*sorted(int(share * len(data)) for share in cuts), len(data)]:
            growing.write_bytes(data[:cut])
            JournalTailer(parts, growing.parent).drain()  # a new reader each time, as after a crash
            parts.refresh_from_db()
        assert facts(parts) == facts(in_one_piece)
        assert [event["seq"] for event in events_of(parts)] == [event["seq"] for event in events_of(in_one_piece)]


def test_a_later_attempt_replaces_replayed_iterations(run: Run, folder: Path) -> None:
    journal_builder.write(
        folder, *journal_builder.evaluation_first(), *journal_builder.iteration(1), *journal_builder.iteration(2)
    )
    journal_builder.write(
        folder, journal_builder.started(2, from_iteration=1, evaluated=0), *journal_builder.iteration(2)
    )
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    assert run.attempt == 2
    assert run.resync_seq == Turn.objects.filter(trajectory__attempt=2).order_by("seq")[0].seq - 4
    assert sorted(Trajectory.objects.values_list("iteration", "split", "attempt").distinct()) == [
        (0, "eval", 1),
        (1, "train", 1),
        (2, "train", 2),
    ]
    assert MetricPoint.objects.filter(iteration=2, name="reward/mean").count() == 1
    assert Evaluation.objects.filter(iteration=0).exists()


def test_a_rewind_replaces_everything_after_its_checkpoint(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run by the real trainer that collapses at iteration 3, rewinds to 1 and completes."""
    from tests.trainer import tiny
    from tests.trainer.loops.test_rewind import ScriptedTrap, configuration
    from trainer.loops import run_factory

    class CollapsesOnce(ScriptedTrap):
        collapses, signs = (3,), (2,)

        def update(self, iteration: int, metrics: Mapping[str, float], fault: str = "") -> journal.Alarm | None:
            alarm = super().update(iteration, metrics, fault)
            if alarm is not None:
                type(self).collapses = type(self).signs = ()
            return alarm

    monkeypatch.setattr("trainer.loops.train.EchoTrap", CollapsesOnce)
    model = tiny.save_pocket(folder / "model")
    end = run_factory.run(configuration(model), folder, folder / "cache")
    assert end.reason == "completed"
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    assert (run.journal_error, run.attempt, run.iteration, run.end_reason) == ("", 2, 4, "completed")
    recorded = list(reader.read(folder / JOURNAL_FILE))
    again = [event for event in recorded if isinstance(event, journal.RunStarted)][1]
    assert run.resync_seq == again.seq
    counts = Trajectory.objects.values_list("iteration", "split", "attempt").distinct().order_by("iteration", "split")
    assert list(counts) == [
        (0, "eval", 1),
        (1, "train", 1),
        (2, "eval", 2),
        (2, "train", 2),
        (3, "train", 2),
        (4, "eval", 2),
        (4, "train", 2),
    ]
    newest = {
        event.iteration: event
        for event in recorded
        if isinstance(event, journal.Metrics) and event.seq > again.seq and "reward/mean" in event.values
    }
    shown = MetricPoint.objects.filter(run=run, name="length/response", iteration__gt=1)
    assert dict(shown.values_list("iteration", "value")) == {
        iteration: event.values["length/response"] for iteration, event in newest.items()
    }
    assert not Alarm.objects.filter(run=run, undone=False).exists(), "it belongs to what was given up"
    assert Alarm.objects.filter(run=run, undone=True, iteration=3).exists(), "why the run went back stays known"
    assert "Collapsed by iteration 3" in Notice.objects.get(run=run).message
    kept = {int(path.name) for path in (folder / "checkpoints").iterdir()}
    assert set(Checkpoint.objects.filter(run=run).values_list("iteration", flat=True)) == kept


def test_an_unfinished_evaluation_is_replaced_as_well(run: Run, folder: Path) -> None:
    journal_builder.write(
        folder,
        journal_builder.started(),
        journal_builder.group(0, 0, ["e0-0"], split="eval"),
        journal_builder.turn("e0-0", 0),
    )
    journal_builder.write(folder, journal_builder.started(2, 0, -1), *journal_builder.evaluation(0))
    JournalTailer(run, folder).drain()
    assert set(Trajectory.objects.values_list("attempt", flat=True)) == {2}
    assert run.groups.filter(split="eval").count() == 2


def test_a_shared_trajectory_survives_its_replaced_attempt(run: Run, folder: Path) -> None:
    journal_builder.write(folder, journal_builder.started(), *journal_builder.iteration(1))
    ingest = JournalTailer(run, folder)
    ingest.drain()
    shared = Trajectory.objects.get(key="1-0-0")
    do_share_trajectory(shared, run.author)
    journal_builder.write(folder, journal_builder.started(2, 0), *journal_builder.iteration(1))
    ingest.drain()
    shared.refresh_from_db()
    assert shared.superseded
    assert shared.turns.count() == 2
    assert run.trajectories.filter(attempt=1).count() == 1
    assert Trajectory.objects.current().filter(key="1-0-0").get().attempt == 2


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b'{"type":"turn", oops}\n', "line 3 is not an event"),
        (b"\0\0\0\0\0\n", "line 3 is not an event"),
        (b"\xff\xfe\n", "line 3 is not an event"),
        (b'{"type":"surprise","seq":2}\n', "line 3 is not an event"),
        (b"\n", "line 3 is not an event"),
    ],
)
def test_a_corrupt_line_is_named_and_everything_before_it_is_kept(
    run: Run, folder: Path, bad: bytes, words: str
) -> None:
    path = journal_builder.write(
        folder,
        journal_builder.started(),
        journal_builder.group(1, 0, ["a"]),
        journal_builder.turn("a", 0),
        journal_builder.turn("a", 1),
    )
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], bad, *lines[3:]]))
    ingest = JournalTailer(run, folder)
    assert ingest.drain() == 2
    run.refresh_from_db()
    assert words in run.journal_error
    assert "Events up to 2 are shown" in run.journal_error
    assert f"import_journal --run {run.slug} --skip-bad-lines" in run.journal_error
    assert run.state == Run.State.QUEUED
    assert ingest.drain() == 0

    path.write_bytes(b"".join(lines))  # repaired
    assert ingest.drain() == 2
    run.refresh_from_db()
    assert run.journal_error == ""
    assert Turn.objects.count() == 2


def test_a_corrupt_line_can_be_skipped_with_its_dependents(run: Run, folder: Path) -> None:
    events = [
        journal_builder.started(),
        journal_builder.group(1, 0, ["a"]),
        journal_builder.group(1, 1, ["b"]),
        journal_builder.turn("a", 0),
        journal_builder.turn("b", 0),
        journal_builder.end("b", 1),
        *journal_builder.iteration(2),
    ]
    path = journal_builder.write(folder, *events)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"garbage\n"
    path.write_bytes(b"".join(lines))
    assert JournalTailer(run, folder, skip_bad_lines=True).drain() == len(lines)
    run.refresh_from_db()
    assert run.journal_error == ""
    assert [event["seq"] for event in events_of(run)] == list(range(1, len(lines) + 1))
    assert list(Notice.objects.order_by("seq").values_list("seq", flat=True)) == [2, 4]
    assert Trajectory.objects.get(key="b").status == "success"


def test_missing_lines_are_not_skipped_silently(run: Run, folder: Path) -> None:
    path = journal_builder.write(folder, *journal_builder.whole_run(1))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))
    assert JournalTailer(run, folder, skip_bad_lines=True).drain() == 4
    run.refresh_from_db()
    assert "lines are missing or out of order" in run.journal_error


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (journal_builder.turn("ghost", 0), "which no group_started announced"),
        (journal_builder.turn("a", 0), "has turn 0 of trajectory a where turn 1 was expected"),
        (journal_builder.turn("done", 1), "after its end"),
        (journal_builder.end("done", 1), "which is not being played"),
        (journal_builder.group(1, 5, ["a"]), "starts trajectory a a second time"),
        (journal_builder.group(1, 5, ["b", "c", "c"]), "starts trajectory c a second time"),
    ],
)
def test_a_line_that_contradicts_earlier_ones_is_named(
    run: Run, folder: Path, event: journal.Event, words: str
) -> None:
    journal_builder.write(
        folder,
        journal_builder.started(),
        journal_builder.group(1, 0, ["a", "done"]),
        journal_builder.turn("a", 0),
        journal_builder.turn("done", 0),
        journal_builder.end("done", 1),
    )
    ingest = JournalTailer(run, folder)
    ingest.drain()
    journal_builder.write(folder, event.model_copy())
    assert ingest.drain() == 0
    run.refresh_from_db()
    assert words in run.journal_error
    assert "line 6 " in run.journal_error


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "-1e999"])
def test_an_out_of_range_number_is_reported_with_its_line(run: Run, folder: Path, value: str) -> None:
    path = journal_builder.write(
        folder,
        journal_builder.started(),
        journal_builder.group(1, 0, ["a"]),
        *[journal_builder.turn("a", k) for k in range(5)],
    )
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"reward":-0.1,"terms"', f'"reward":{value},"terms"'.encode())
    path.write_bytes(b"".join(lines))
    ingest = JournalTailer(run, folder)
    assert ingest.drain() == 4
    run.refresh_from_db()
    assert "line 5 " in run.journal_error
    assert Turn.objects.count() == 2


def test_nul_characters_are_shown_as_a_symbol(run: Run, folder: Path) -> None:
    path = journal_builder.write(
        folder,
        journal_builder.started(),
        journal_builder.group(1, 0, ["a"]),
        journal_builder.turn("a", 0, thought="\0 \\u0000"),
    )
    assert b"\\u0000" in path.read_bytes()
    assert JournalTailer(run, folder).drain() == 3
    assert Turn.objects.get().event["thought"] == "␀ \\u0000"
    assert events_of(run)[-1]["thought"] == "␀ \\u0000"


def test_the_first_event_of_a_starting_run_sets_it_running(run: Run, folder: Path) -> None:
    journal_builder.write(folder, journal_builder.started())
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING


def test_a_batch_costs_a_bounded_number_of_queries(
    run: Run, folder: Path, django_assert_max_num_queries: object
) -> None:
    journal_builder.write(folder, journal_builder.started(), *journal_builder.iteration(1, groups=8, size=16, turns=1))
    with django_assert_max_num_queries(30):
        assert JournalTailer(run, folder).step() > 200


@pytest.mark.parametrize("skip", [False, True])
def test_a_count_below_zero_is_a_bad_line(run: Run, folder: Path, skip: bool) -> None:
    below_zero = journal_builder.turn("a", 0).model_copy(update={"tokens": -9})
    opening = [journal_builder.started(), journal_builder.group(1, 0, ["a"])]
    journal_builder.write(folder, *opening, below_zero, *journal_builder.iteration(2))
    read = JournalTailer(run, folder, skip_bad_lines=skip).drain()
    run.refresh_from_db()
    if skip:
        assert (run.iteration, run.journal_error) == (2, "")
        assert "database does not take" in Notice.objects.get().message
    else:
        assert read == 2
        assert "line 3 holds a value that the database does not take" in run.journal_error
