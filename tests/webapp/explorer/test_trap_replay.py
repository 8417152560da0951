"""The recorded Echo Trap: recording from journals, the recording that ships, and its pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from envs.base import Arm, ArmsBoard
from tests.webapp.javascript import evaluate
from tests.webapp.journal_builder import end, evaluation, group, started, turn
from trainer.journal import events as journal
from trainer.journal.writer import Journal
from webapp.core.middleware.csp import FRAMED_POLICY
from webapp.explorer.trap_replay import from_json, trap_replay

SURE, RARE = "Dragon or Phoenix? I take Phoenix.", "Dragon or Phoenix? I take Dragon."


def arms(pulled: str = "") -> ArmsBoard:
    return ArmsBoard(arms=[Arm(name=name, pulls=int(name == pulled), total=0.0) for name in ("Dragon", "Phoenix")])


def iteration(number: int, thoughts: Iterable[tuple[str, str]]) -> Iterator[journal.Event]:
    """Two groups of two attempts with these thoughts; the filter keeps the second group."""
    names = [f"{number}-{at}" for at in range(4)]
    for at in (1, 0):  # as groups start in any order
        yield group(number, at, names[2 * at : 2 * at + 2]).model_copy(update={"board": arms()})
    for name, (thought, arm) in zip(names, thoughts, strict=True):
        action = journal.ActionRecord(text=arm, status="executed", name=arm, board=arms(arm))
        yield turn(name, 0, thought).model_copy(update={"board": arms(), "answer": arm, "actions": [action]})
        yield end(name, 1, success=arm == "Dragon")
    scores = [journal.GroupScore(group=at, mean=0, std=0, kept=at == 1) for at in range(2)]
    yield journal.GroupsScored(iteration=number, groups=scores)
    values = {"success/rate": 0.5 / number, "reward/in_group_std": 0.1 / number}
    yield journal.Metrics(iteration=number, tokens=1, seconds=1, values=values)


def collapsing() -> Iterator[journal.Event]:
    yield started()
    yield from evaluation(0)
    yield from iteration(1, [(RARE, "Dragon"), (SURE, "Phoenix"), (RARE, "Dragon"), (RARE, "Dragon")])
    yield from iteration(2, [(SURE, "Phoenix"), (SURE, "Phoenix"), (SURE, "Phoenix"), (RARE, "Dragon")])
    yield journal.Alarm(iteration=2, state="trapped", message="Collapse.")
    yield from evaluation(2)
    yield journal.Metrics(iteration=2, tokens=1, seconds=1, values={"eval/fixed/success": 0.5})


def written(folder: Path, events: Iterable[journal.Event]) -> Path:
    folder.mkdir()
    out = Journal(folder)
    out.write(*events)
    out.close()
    return folder


def test_a_recording_contains_every_attempt_of_both_runs(tmp_path: Path) -> None:
    folder, out = written(tmp_path / "run", collapsing()), tmp_path / "replay.json"
    call_command("record_trap_replay", str(folder), str(folder), "--out", str(out))
    replay = from_json(out.read_text())
    run, _ = replay.runs
    assert run.iterations == ["abaa", "bbba"], "group by group, whatever their order in the journal"
    assert [attempt["thought"] for attempt in run.attempts] == [RARE, SURE]
    assert run.attempts[1]["after"]["arms"][1] == {"name": "Phoenix", "pulls": 1, "total": 0.0}
    assert run.kept == ["01", "01"]
    assert run.curves == {"success/rate": [0.5, 0.25], "reward/in_group_std": [0.1, 0.05]}
    assert replay.endings == ["I take Phoenix.", "I take Dragon."], "first the echo of the end"
    assert run.endings(2) == {"I take Phoenix.": 3, "I take Dragon.": 1}
    assert replay.echoes[0].bands[0].shares == [0.25, 0.75]
    assert run.condition is not None
    assert run.condition.iteration == 2


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([*collapsing(), started(2, 2)], "it started 2 times"),
        ([*collapsing(), turn("2-0", 1)], "several turns"),
        ([started(), *iteration(1, [(SURE, "Phoenix")] * 4)], "no evaluated iteration"),
        (
            [
                *collapsing(),
                *(
                    event
                    for at in range(30)
                    for event in iteration(at + 3, [(f"{at} {n}.", "Dragon") for n in range(4)])
                ),
            ],
            "more than 87 different attempts",
        ),
    ],
)
def test_a_run_that_cannot_be_replayed_is_refused_with_the_reason(
    tmp_path: Path, events: list[journal.Event], reason: str
) -> None:
    folder = written(tmp_path / "run", events)
    with pytest.raises(CommandError, match=reason):
        call_command("record_trap_replay", str(folder), str(folder), "--out", str(tmp_path / "replay.json"))
    assert not (tmp_path / "replay.json").exists()


def test_the_recording_that_ships_collapses_beside_a_twin_that_learns() -> None:
    """What the page, README and documentation say about it."""
    replay = trap_replay()
    collapsed, twin = replay.runs
    assert (collapsed.name, twin.name, collapsed.seed) == ("StarPO", "StarPO-S", twin.seed)
    (sentence, echoes), *_ = collapsed.endings(replay.length).most_common()
    assert (sentence, echoes >= 0.95 * collapsed.size) == ("I take Phoenix.", True)
    assert collapsed.condition is not None
    assert collapsed.condition.state == "trapped"
    assert twin.condition is None
    assert twin.evaluations[-1][1] > twin.evaluations[0][1] + 0.1
    assert collapsed.evaluations[0] == twin.evaluations[0], "both start from the same weights"


def test_columns_of_the_wall_are_groups_sorted_by_how_much_they_echo() -> None:
    attempts = [{"ending": "Yes.", "reward": 0.1}, {"ending": "No.", "reward": 1}, {"ending": "?", "reward": 0}]
    run = {"groupSize": 2, "attempts": attempts, "codes": "abc", "iterations": ["ab" + "aa" + "cb"]}
    data = {"run": run, "endings": ["Yes.", "No."]}
    columns = evaluate("pages/replay_iterations.js", "columnsOf(data.run, data.endings, 1)", data)
    assert [column[0]["group"] for column in columns] == [2, 0, 1]
    assert [[cell["index"] for cell in column] for column in columns] == [[4, 5], [1, 0], [2, 3]]
    data |= {"cells": [cell for column in columns for cell in column]}
    assert evaluate("pages/replay_iterations.js", "commonest(data.cells, data.endings)", data) == {
        "ending": "Yes.",
        "count": 3,
    }


def test_the_page_needs_no_account_and_no_run(db: None, client: Client) -> None:
    page = client.get("/echo-trap", {"iteration": "40"})
    html = page.content.decode()
    assert page.status_code == 200
    assert 'data-start="40"' in html
    assert "data-autoplay" not in html, "a link to an iteration shows it"
    assert "Train it live" not in html, "only for those who may launch"
    assert 'data-start="1"' in client.get("/echo-trap", {"iteration": "9" * 400}).content.decode()


def test_other_sites_may_frame_the_recording(db: None, client: Client) -> None:
    page: Any = client.get("/embed/echo-trap", {"autoplay": "1", "theme": "dark"})
    assert page["Content-Security-Policy"] == FRAMED_POLICY
    assert "X-Frame-Options" not in page
    assert 'data-theme="dark"' in page.content.decode()
    assert "data-autoplay" in page.content.decode()
