"""Trajectories as a data set: the rows of the journal, superseded ones left out, and the card of the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from huggingface_hub import DatasetCard

import echoscope
from envs.base import CallRecord
from tests.trainer import hub_server
from tests.trainer.hub_server import Hub
from tests.webapp import recorded_journal as recorded
from trainer.cli import main
from trainer.config.run import RunConfig
from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal
from trainer.publishing import dataset
from trainer.publishing.live_groups import is_superseded
from trainer.publishing.run_facts import read_facts
from trainer.publishing.trajectories import read_trajectories


@pytest.fixture(scope="module")
def exported(recorded_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "dataset"
    arguments = ["--run", str(recorded_run), "--out", str(out), "--license", "cc-by-4.0"]
    assert main.main(["export-trajectories", *arguments]) == 0
    return out


def test_each_trajectory_is_a_row_and_a_repeated_iteration_counts_once(exported: Path, recorded_run: Path) -> None:
    rows = pq.read_table(exported / "data" / "train.parquet").to_pylist()
    assert Counter(row["iteration"] for row in rows) == {1: 6, 2: 6, 3: 6}
    assert {row["attempt"] for row in rows if row["iteration"] == 3} == {2}, "the first attempt's was superseded"
    finished = {
        (event.trajectory, event.total_reward)
        for event in reader.read(recorded_run / JOURNAL_FILE)
        if isinstance(event, events.TrajectoryFinished)
    }
    for row in rows:
        assert (row["id"], row["total_reward"]) in finished
        assert row["total_reward"] == pytest.approx(sum(turn["reward"] for turn in row["turns"]))
        assert [turn["turn"] for turn in row["turns"]] == list(range(row["turn_count"]))
        assert row["group_mean"] is not None
        assert json.loads(row["board"])["kind"] == "grid"
        for turn in row["turns"]:
            assert sum(term["value"] for term in turn["terms"]) == pytest.approx(turn["reward"])


def test_calls_of_tools_have_columns_of_their_own(tmp_path: Path, config: RunConfig) -> None:
    call = CallRecord(tool="search", arguments={"query": "moons"}, result="2")
    log = Journal(tmp_path / "run")
    log.write(recorded.started(config))
    for event in recorded.iteration(config, 1, 0.5):
        if isinstance(event, events.Turn):
            action = events.ActionRecord(text="search(moons)", status="executed")
            actions = [action.model_copy(update={"call": call}), action]
            event = event.model_copy(update={"actions": actions})
        log.write(event)
    log.close()
    dataset.export_trajectories(tmp_path / "run", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "data" / "train.parquet")
    for row in table.to_pylist():
        for turn in row["turns"]:
            first, second = (action["call"] for action in turn["actions"])
            assert first == {"tool": "search", "arguments": '{"query":"moons"}', "result": "2", "failed": False}
            assert second is None


def test_the_card_describes_the_files(exported: Path) -> None:
    data = DatasetCard.load(exported / "README.md").data.to_dict()
    assert data["license"] == "cc-by-4.0"
    (split,) = data["dataset_info"]["splits"]
    assert (split["name"], split["num_examples"]) == ("train", 18)
    assert split["num_bytes"] == data["dataset_info"]["dataset_size"] > 0
    assert data["configs"][0]["data_files"] == [{"split": "train", "path": "data/train.parquet"}]
    assert (exported / "data" / "train.parquet").stat().st_size == data["dataset_info"]["download_size"]
    columns = [column["name"] for column in data["dataset_info"]["features"]]
    assert columns == pq.read_schema(exported / "data" / "train.parquet").names
    text = (exported / "README.md").read_text()
    assert "| train | 18 | data/train.parquet |" in text
    assert "| `group_mean` | float64 | rewards of its group;" in text


def test_a_split_without_trajectories_is_refused(
    recorded_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["export-trajectories", "--run", str(recorded_run), "--out", str(out)]
    assert main.main([*arguments, "--split", "eval"]) == 2
    assert "no finished trajectory of the split eval" in capsys.readouterr().err
    assert main.main([*arguments, "--split", "train"]) == 0
    assert main.main([*arguments, "--split", "train"]) == 2
    assert "is not empty: choose another folder" in capsys.readouterr().err
    assert main.main(["export-trajectories", "--run", str(tmp_path), "--out", str(tmp_path / "b")]) == 2
    assert "name the folder of a run" in capsys.readouterr().err


def test_a_run_that_is_still_written_is_exported_up_to_its_last_complete_line(
    tmp_path: Path, config: RunConfig
) -> None:
    folder = tmp_path / "run"
    log = Journal(folder)
    log.write(recorded.started(config))
    for event in recorded.iteration(config, 1, 0.5):
        log.write(event)
    for event in recorded.iteration(config, 2, 0.5, stop_after=2):
        log.write(event)
    log.close()
    with (folder / JOURNAL_FILE).open("a") as file:
        file.write('{"seq":')
    read = [(t.group.iteration, t.end is not None) for t in read_trajectories(folder / JOURNAL_FILE)]
    assert Counter(iteration for iteration, _ in read)[1] == 6
    assert all(ended for _, ended in read)
    assert dataset.export_trajectories(folder, tmp_path / "out")["train"] == len(read)


def test_an_evaluation_that_a_later_attempt_keeps_is_not_superseded(config: RunConfig) -> None:
    start = recorded.started(config, attempt=2, from_iteration=3)
    start = start.model_copy(update={"evaluated_iteration": 2, "evaluated_suites": ["Sokoban"]})
    assert not is_superseded(start, "eval", 3, "Sokoban")
    assert is_superseded(start, "eval", 3, "Bandit")
    assert not is_superseded(start, "eval", 2, "Bandit")
    assert is_superseded(start, "train", 4, None)
    assert not is_superseded(start, "train", 3, None)


def test_a_data_set_is_pushed_by_the_command_with_the_endpoint_of_the_environment(
    recorded_run: Path, tmp_path: Path, hub: Hub
) -> None:
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": hub_server.TOKEN}
    environment.pop("HF_HUB_OFFLINE", None)
    command = [sys.executable, "-m", "trainer", "export-trajectories", "--run", str(recorded_run)]
    command += ["--out", str(tmp_path / "out"), "--push", "ada/games"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"{hub.url}/datasets/ada/games" in done.stdout
    assert hub.repositories == {"datasets/ada/games": False}
    files = hub.files["datasets/ada/games"]
    assert set(files) == {"README.md", "data/train.parquet"}
    assert files["data/train.parquet"] == (tmp_path / "out" / "data" / "train.parquet").read_bytes()


def test_a_run_of_another_trainer_is_exported_as_it_was_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = echoscope.init("Wordle <3", folder=tmp_path / "run", environment="Wordle", config={"lr": 1e-5})
    for iteration in (1, 2):
        for attempt in run.group(2, prompt="Guess the word.", iteration=iteration):
            with attempt:
                attempt.turn(state="_____", response="<guess>crane</guess>", reward=0.5 if iteration == 1 else None)
                attempt.finish(success=iteration == 2)
    run.finish()
    out = tmp_path / "out"
    assert main.main(["export-trajectories", "--run", str(tmp_path / "run"), "--out", str(out)]) == 0
    rows = pq.read_table(out / "data/train.parquet").to_pylist()
    assert [(row["environment"], row["iteration"], row["success"]) for row in rows] == [
        ("Wordle", 1, False),
        ("Wordle", 1, False),
        ("Wordle", 2, True),
        ("Wordle", 2, True),
    ]
    assert rows[0]["turns"][0]["response"] == "<guess>crane</guess>"
    assert [row["turns"][0]["reward"] for row in rows] == [0.5, 0.5, None, None]
    card = DatasetCard.load(out / "README.md")
    assert card.data.tags == ["echoscope", "agent", "trajectories", "env:Wordle"]
    assert "Dialogues of a language-model agent in **Wordle**, recorded by Echoscope over 2 iterations." in card.text
    with pytest.raises(ValueError, match=r"another trainer recorded the run in .*: only its trajectories can be"):
        read_facts(tmp_path / "run")
