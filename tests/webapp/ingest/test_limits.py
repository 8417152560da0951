"""Limits of the journal: long texts are cut, absurd events do not become large pages, usual ones are untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client

from envs.base import CallRecord, GridBoard, TextBoard
from tests.webapp import journal_builder
from tests.webapp.ingest.test_token_arrays_ingest import tokens
from trainer.journal import events as journal
from trainer.journal.reader import JournalError
from webapp.ingest import limits
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Notice, Run
from webapp.trajectories import serialize, token_view
from webapp.trajectories.models import TokenArrays, Trajectory, Turn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def begun(run: Run, folder: Path, *events: journal.Event) -> Run:
    journal_builder.write(folder, journal_builder.started(), journal_builder.group(1, 0, ["a"]), *events)
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    return run


def test_usual_events_are_untouched() -> None:
    events = [*journal_builder.whole_run(2), tokens("a")]
    assert all(limits.fitted(event) is event for event in events)  # type: ignore[arg-type]


@pytest.mark.django_db
def test_long_texts_are_cut_and_later_events_are_read(run: Run, folder: Path) -> None:
    long = journal_builder.turn("a", 0, thought="w" * 100_000).model_copy(update={"response": "r" * 10_000})
    notice = journal.Notice(level="info", message="n" * 100_000)
    begun(run, folder, long, notice, journal_builder.turn("a", 1))
    assert run.journal_error == ""
    assert run.seq == 5
    first, second = Turn.objects.order_by("number").values_list("event", flat=True)
    assert first["thought"] == "w" * limits.MAX_TEXT + " … [34,464 more characters]"
    assert len(first["response"]) < limits.MAX_TEXT + 100
    assert second["thought"] == "I push."
    assert len(Notice.objects.get().message) < limits.MAX_MESSAGE + 100


@pytest.mark.django_db
def test_a_grid_that_no_page_could_show_is_named_instead(run: Run, folder: Path) -> None:
    turn = journal_builder.turn("a", 0)
    turn.actions[0].board = GridBoard(theme="sokoban", rows=["#" * 300] * 300)
    begun(run, folder, turn)
    [action] = Turn.objects.get().event["actions"]
    assert action["board"]["kind"] == "text"
    assert "more than 200 cells a side" in action["board"]["text"]


@pytest.mark.django_db
def test_a_question_keeps_its_words_without_a_grid_that_no_page_could_show(run: Run, folder: Path) -> None:
    turn = journal_builder.turn("a", 0)
    small, huge = (GridBoard(theme="sokoban", rows=["#" * side] * side) for side in (3, 300))
    turn.board = TextBoard(text="Where?", grid=huge)
    turn.actions[0].board = TextBoard(text="There", grid=small)
    begun(run, folder, turn)
    event = Turn.objects.get().event
    assert event["board"] == {"kind": "text", "text": "Where?"}
    assert event["actions"][0]["board"]["grid"]["rows"] == ["###"] * 3


@pytest.mark.django_db
def test_a_line_longer_than_a_mebibyte_is_left_out(run: Run, folder: Path) -> None:
    begun(run, folder, journal.Notice(level="info", message="n" * limits.MAX_LINE_BYTES), journal_builder.turn("a", 0))
    assert (run.journal_error, run.seq) == ("", 4)
    assert "line 3 has 1,048,6" in Notice.objects.get().message
    assert Turn.objects.count() == 1


@pytest.mark.django_db
def test_an_event_of_a_newer_trainer_is_left_out(run: Run, folder: Path) -> None:
    begun(run, folder)
    path = folder / "journal.jsonl"
    start = len(path.read_bytes().splitlines())
    with path.open("a") as file:
        file.write(f'{{"seq":{start + 1},"time":1.0,"type":"telepathy","iteration":1}}\n')
    journal_builder.write(folder, journal.Notice(level="info", message="It goes on."))
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    assert (run.journal_error, run.seq) == ("", start + 2)
    kept = list(Notice.objects.order_by("seq").values_list("message", flat=True))
    assert kept[0].endswith(f"line {start + 1} is of the type telepathy, which this version does not know.")
    assert kept[1:] == ["It goes on."]
    with path.open("a") as file:
        file.write('{"seq":1,"time":1.0,"type":"telepathy"}\n')
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    assert "is not an event" in run.journal_error, "lines before it are missing"


def test_tokens_beyond_what_is_shown_are_left_out(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TOKENS", 2)
    played = [journal_builder.turn("a", 0), journal_builder.end("a", 1)]
    begun(run, folder, *played, tokens("a", 3), journal.Notice(level="info", message="on"))
    assert (run.journal_error, run.seq) == ("", 6)
    assert not TokenArrays.objects.exists()
    assert "line 5 has 3 tokens of trajectory a" in Notice.objects.order_by("seq")[0].message


def test_a_packed_number_of_tokens_is_limited_whatever_the_event_claims() -> None:
    million = tokens("a", 1_000_000)
    million.tokens = 1
    with pytest.raises(limits.LineLeftOut, match="1,000,000 tokens"):
        limits.fitted(million)
    assert len(million.data) < 50_000  # what an import would send


@pytest.mark.django_db
def test_tokens_of_an_earlier_version_are_refused_by_the_token_view(
    run: Run, folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(run, folder, journal_builder.turn("a", 0), journal_builder.end("a", 1), tokens("a", 3))
    monkeypatch.setattr(token_view, "MAX_TOKENS", 2)
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    answer = client.get(f"/t/{Trajectory.objects.get().slug}/tokens.json").json()
    assert answer["turns"] == []
    assert "has 3 tokens; at most 2 are shown" in answer["note"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"time": float("nan")}, "the time nan"),
        ({"time": 9_007_199_254_740_992}, "the time 9007199254740992"),
        ({"time": -1.0}, "the time -1.0"),
        ({"turns": 2**40}, "number in turns"),
        ({"lost_at": journal.LostAt(turn=2**31, action=0, reason="")}, "number in turn "),
        ({"total_reward": float("inf")}, "number in total_reward"),
    ],
)
def test_numbers_that_cannot_be_stored_or_exported_are_refused(change: dict[str, object], complaint: str) -> None:
    event = journal_builder.end("a", 1).model_copy(update={"seq": 7} | change)
    with pytest.raises(JournalError, match=f"line 7 .*{complaint}"):
        limits.fitted(event)


def test_what_other_recorders_add_is_kept_whatever_its_numbers_are() -> None:
    added = {"began_ns": 1_795_675_717_046_685_000, "score": float("nan"), "k" * 300: [1, {"text": "x" * 70_000}]}
    sent = journal.Notice(level="info", message="a", extra=added)  # type: ignore[arg-type]
    extra = limits.fitted(sent).extra
    assert extra is not None
    assert extra["began_ns"] == added["began_ns"]
    assert extra["score"] is None
    (name,) = extra.keys() - added.keys()
    assert name.startswith("kkk")
    assert len(name) < 260
    assert len(json.dumps(extra)) < 67_000


def test_seeds_of_64_bits_and_token_counts_of_long_runs_are_stored() -> None:
    group = journal_builder.group(1, 0, ["a"]).model_copy(update={"seed": 2**63 - 1})
    assert limits.fitted(group) is group
    metrics = journal.Metrics(iteration=1, tokens=10**12, seconds=1.0, values={})
    assert limits.fitted(metrics) is metrics
    with pytest.raises(JournalError, match="1,001 metrics"):
        limits.fitted(metrics.model_copy(update={"values": {str(number): 0.0 for number in range(1001)}}))


@pytest.mark.django_db
@pytest.mark.parametrize("value", ["NaN", "9007199254740992"])
def test_a_time_out_of_range_is_reported_with_its_line(run: Run, folder: Path, value: str) -> None:
    path = journal_builder.write(
        folder, journal_builder.started(), journal_builder.group(1, 0, ["a"]), journal.Notice(level="info", message="")
    )
    lines = path.read_text().splitlines(keepends=True)
    event = json.loads(lines[2])
    lines[2] = lines[2].replace(json.dumps(event["time"]), value)
    path.write_text("".join(lines))
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    assert run.seq == 2
    assert "line 3 has the time" in run.journal_error


def test_a_turn_is_cut_until_a_page_can_show_many_of_them() -> None:
    turn = journal_builder.turn("a", 0, thought="w" * 60_000).model_copy(update={"seq": 3, "state": "s" * 60_000})
    turn = turn.model_copy(update={"response": "r" * 60_000})
    short = limits.fitted(turn)
    assert isinstance(short, journal.Turn)
    assert short.thought == "w" * limits.SHORT_TEXT + " … [43,616 more characters]"
    board = GridBoard(theme="sokoban", rows=["#" * 190] * 190)
    actions = [turn.actions[0].model_copy(update={"board": board})] * 20
    huge = limits.fitted(turn.model_copy(update={"actions": actions}))
    assert isinstance(huge, journal.Turn)
    assert len(huge.model_dump_json()) < limits.MAX_TURN_BYTES
    assert len(huge.actions) == 20
    with pytest.raises(limits.LimitExceeded, match=r"line 3 is a turn of .* bytes"):
        limits.fitted(turn.model_copy(update={"terms": {f"{number:0200}": 0.0 for number in range(1000)}}))


def test_calls_of_a_turn_that_is_too_large_keep_their_short_parts() -> None:
    """Tools that answer with whole pages: the page shows which calls were made, and how each result began."""
    turn = journal_builder.turn("a", 0).model_copy(update={"seq": 3})
    asked = CallRecord(tool="search", arguments={"query": "rivers"}, result="r" * 200)
    written = CallRecord(tool="t" * 250, arguments={"code": "x" * 300}, result="r" * 30_000)
    actions = [turn.actions[0].model_copy(update={"call": call}) for call in (asked, written)] * 10
    short = limits.fitted(turn.model_copy(update={"actions": actions}))
    assert isinstance(short, journal.Turn)
    first, second = (action.call for action in short.actions[:2])
    assert first == asked
    assert second is not None
    assert second.tool == "t" * 200 + " … [50 more characters]"
    assert second.result == "r" * 200 + " … [29,800 more characters]"
    assert second.arguments == {"arguments": '{"code": "' + "x" * 190 + " … [112 more characters]"}


def test_numbers_of_turns_actions_and_members_are_limited() -> None:
    turn = journal_builder.turn("a", 0).model_copy(update={"seq": 3})
    [action] = turn.actions[:1]
    executed, ignored = (action.model_copy(update={"status": status}) for status in ("executed", "ignored"))
    many = limits.fitted(turn.model_copy(update={"actions": [executed] * 100 + [ignored] * 500}))
    assert isinstance(many, journal.Turn)
    assert len(many.actions) == limits.MAX_ACTIONS
    with pytest.raises(limits.LimitExceeded, match="line 3 executes more than the 200 actions"):
        limits.fitted(turn.model_copy(update={"actions": [ignored] * 200 + [executed]}))
    with pytest.raises(limits.LimitExceeded, match="line 3 is turn 1,000"):
        limits.fitted(turn.model_copy(update={"turn": 1000}))
    group = journal_builder.group(1, 0, [str(number) for number in range(4097)]).model_copy(update={"seq": 2})
    with pytest.raises(limits.LimitExceeded, match="line 2 has a group of 4,097 trajectories"):
        limits.fitted(group)


@pytest.mark.django_db
def test_a_page_shows_the_turns_that_it_can_hold_and_names_the_others(
    run: Run, folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(run, folder, *(journal_builder.turn("a", number, thought="w" * 2000) for number in range(3)))
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    trajectory = Trajectory.objects.get()
    address = f"/t/{trajectory.slug}"
    assert "cannot be shown" not in client.get(address).content.decode()
    monkeypatch.setattr(serialize, "MAX_TURNS_LENGTH", 8000)
    data = serialize.trajectory_data(trajectory)
    assert (len(data["turns"]), data["turns_left_out"]) == (1, 2)
    assert "2 more turns of this attempt cannot be shown" in client.get(address).content.decode()
    assert len(client.get(f"{address}/export/json").json()["turns"]) == 1


@pytest.mark.django_db
def test_a_page_names_turns_that_are_too_long_to_be_stored(run: Run, folder: Path, client: Client) -> None:
    long = journal_builder.turn("a", 0, thought="ж" * 600_000)
    end = journal.TrajectoryFinished(trajectory="a", success=True, end="terminated", turns=1, actions=2)
    begun(run, folder, long, end)
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    page = " ".join(client.get(f"/t/{Trajectory.objects.get().slug}").content.decode().split())
    assert "1 turn of this attempt cannot be shown: too long for this site" in page
    assert "The journal has it where the run was trained." in page
    assert "the turns before are already too long" not in page
    assert "Solved in 1 turn, 2 actions" in page
