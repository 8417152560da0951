"""The command `branch`: what it prints and writes, and its errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.trainer.branching.recordings import attempts, record
from trainer.cli.main import main
from trainer.journal import reader
from trainer.journal.branches import Corrections, Influences, Survey, Values
from trainer.journal.events import TrajectoryFinished, TrajectoryTokens, Turn
from trainer.loops.recorded_attempts import find_attempt


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("asked"), prompts=2)


def run(folder: Path, *options: str) -> int:
    return main(["branch", str(folder), "--trajectory", attempts(folder)[0], *options])


def test_branches_are_summarised_and_written_as_a_journal(folder, tmp_path, capsys):
    out = tmp_path / "branches.jsonl"
    thought = "Target 3,3. Push Up."
    assert run(folder, "--turn", "2", "--samples", "3", "--thought", thought, "--json", str(out)) == 0
    printed, noted = capsys.readouterr()
    name = attempts(folder)[0]
    assert printed.count(f"{name}-t01-b0") == 3
    assert "  turn 2: " in printed
    assert f"  – {thought}" in printed
    assert re.search(r"^\d of 3 solved \(\d+%, \d+%–\d+%\)$", printed, re.MULTILINE)
    assert f"weights after 0 iterations of {folder}; the recorded token ids" in noted
    events = list(reader.read(out))
    assert {type(event) for event in events} == {Turn, TrajectoryFinished, TrajectoryTokens}
    assert {event.thought for event in events if isinstance(event, Turn) and event.turn == 1} == {thought}


def test_values_and_thoughts_are_tables_and_json(folder, tmp_path, capsys):
    out = tmp_path / "out.json"
    turns = len(find_attempt(folder, attempts(folder)[0]).turns)
    assert run(folder, "--value", "2", "--temperature", "0", "--json", str(out)) == 0
    assert capsys.readouterr().out.endswith("the turn of the steepest fall: none\n")
    assert len(Values.model_validate_json(out.read_text()).turns) == turns
    assert run(folder, "--thoughts", "2", "--json", str(out)) == 0
    assert re.search(r"^influence of the thought [01]\.\d\d, of false claims", capsys.readouterr().out, re.MULTILINE)
    assert len(Influences.model_validate_json(out.read_text()).turns) <= turns


def test_questions_about_an_evaluation_are_tables_and_json(folder, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["branch", str(folder), "--corrections", "2", "--json", str(out)]) == 0
    printed, noted = capsys.readouterr()
    found = Corrections.model_validate_json(out.read_text())
    assert f"2 attempts in Sokoban after iteration 0: {found.lost} lost, {found.correctable} of them" in printed
    assert len(found.rows) == found.correctable <= found.lost <= found.attempts == 2
    assert ("difference:" in printed) == bool(found.rows)
    assert main(["branch", str(folder), "--thoughts", "2", "--evaluation", "--attempts", "1", "--json", str(out)]) == 0
    printed, noted = capsys.readouterr()
    assert "weights after 0 iterations" in noted
    assert re.search(
        r"^1 of 2 attempts in Sokoban after iteration 0: influence of the thought [01]\.\d\d "
        r"\([01]\.\d\d–[01]\.\d\d\), of false claims",
        printed,
        re.MULTILINE,
    )
    assert len(Survey.model_validate_json(out.read_text()).rows) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--corrections", "65"], "from 1 to 64"),
        (["--corrections", "4", "--trajectory", "e00000-p000"], "leave --trajectory out"),
        (
            ["--corrections", "4", "--iteration", "7"],
            "no finished attempt of an evaluation in Sokoban",
        ),
        (["--corrections", "4", "--suite", "Bandit"], "not evaluated in Bandit"),
        (["--corrections", "4", "--attempts", "0"], "attempts"),
        (["--turn", "1", "--evaluation"], "--evaluation goes with --thoughts"),
        (["--thoughts", "4", "--trajectory", "e00000-p000", "--suite", "Bandit"], "name an evaluation"),
        (["--value", "4"], "name the attempt with --trajectory"),
        (["--corrections", "4", "--thought", "so"], "name it with --turn"),
    ],
)
def test_mistakes_about_evaluations_are_explained(folder, capsys, options, message):
    assert main(["branch", str(folder), *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--turn", "0"], "--turn counts from 1"),
        (["--turn", "99"], "there is no turn 99"),
        (["--turn", "1", "--samples", "65"], "from 1 to 64"),
        (["--value", "4", "--thought", "so"], "name it with --turn"),
        (["--turn", "1", "--checkpoint", "7"], "there is no checkpoint of iteration 7"),
        (["--turn", "1", "--from", "/nowhere:3"], "/nowhere holds no journal"),
        (["--turn", "1", "--temperature", "-1"], "temperature"),
    ],
)
def test_mistakes_are_explained(folder, capsys, options, message):
    assert run(folder, *options) == 2
    assert message in capsys.readouterr().err
