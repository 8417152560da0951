"""Experiment trackers: each real library, offline, read back; a failure there never stops a run."""

import json
import struct
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from envs.base import TextBoard
from tests.trainer import tiny
from trainer.cli import main
from trainer.journal import reader
from trainer.journal.events import GroupStarted, Metrics, Notice, RunFinished, RunStarted, TrajectoryFinished, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal
from trainer.loops import run_factory, trackers
from trainer.loops.tracking.dialogues import SampledDialogues


@pytest.fixture(autouse=True)
def _offline(tmp_path, monkeypatch):
    """Nothing leaves this machine, nothing is written outside the test's folder."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "wandb-config"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "wandb-cache"))
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read once, when it is first imported
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def started(from_iteration=0, attempt=1):
    return RunStarted(
        attempt=attempt,
        from_iteration=from_iteration,
        iterations=3,
        title="Sokoban · StarPO-S",
        config={"seed": 7, "algorithm": {"group_filter": "std", "dual_clip": None}, "tags": ["a"]},
        device="CPU",
        parameters=1,
        versions={},
    )


def metrics(iteration, **values):
    return Metrics(iteration=iteration, tokens=1, seconds=1.0, values=values or {"reward/mean": iteration / 2})


def finished(reason="completed", iteration=3):
    return RunFinished(reason=reason, iteration=iteration, message="Done.", summary={"success_after": 0.75})


def two_attempts(name, folder):
    """A run that is interrupted after two iterations, resumes from the first, and ends."""
    for events in (
        [started(), metrics(1), metrics(2), finished("interrupted", 2)],
        [started(1, 2), metrics(2), metrics(3, **{"reward/mean": 1.5, "eval/Sokoban/pass@2": 0.25}), finished()],
    ):
        book = Journal(folder)
        trackers.attach(book, [name], folder)
        for event in events:
            book.write(event)
        book.close()
    assert not [event for event in reader.read(folder / JOURNAL_FILE) if isinstance(event, Notice)]


def test_tensorboard_files_hold_every_iteration_once_and_the_summary(tmp_path):
    two_attempts("tensorboard", tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert [(point.step, point.value) for point in read.Scalars("reward/mean")] == [(1, 0.5), (2, 1.0), (3, 1.5)]
    assert [point.value for point in read.Scalars("eval/Sokoban/pass@2")] == [0.25]
    assert read.Scalars("summary/success_after")[-1].value == 0.75
    (config,) = read.Tensors("config/text_summary")
    assert b'"group_filter": "std"' in config.tensor_proto.string_val[0]


def wandb_records(file):
    """The records of a .wandb file: a LevelDB log of protobufs, behind a header of seven bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32_768 - at % 32_768
        if left < 7:
            at += left
            continue
        size, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def items(found):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in found}


def test_wandb_writes_one_run_across_attempts(tmp_path):
    two_attempts("wandb", tmp_path)
    files = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime_ns)
    assert len({file.name for file in files}) == 1
    records = [record for file in files for record in wandb_records(file)]
    rows = [items(r.history.item) for r in records if r.WhichOneof("record_type") == "history"]
    assert [(row["iteration"], row["reward/mean"]) for row in rows] == [(1, 0.5), (2, 1.0), (2, 1.0), (3, 1.5)]
    runs = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert {run.run_id for run in runs} == {json.loads((tmp_path / trackers.RECORD).read_text())["wandb"]}
    assert items(runs[0].config.update)["algorithm"] == {"group_filter": "std", "dual_clip": None}
    summaries = [items(r.summary.update) for r in records if r.WhichOneof("record_type") == "summary"]
    assert any(summary.get("success_after") == 0.75 for summary in summaries)


def test_mlflow_writes_files_without_a_server_and_continues_its_run(tmp_path):
    two_attempts("mlflow", tmp_path)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "mlruns").absolute().as_uri())
    experiment = client.get_experiment_by_name("echoscope")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["algorithm.group_filter"] == "std"
    assert run.data.params["seed"] == "7"
    history = client.get_metric_history(run.info.run_id, "reward/mean")
    assert [(point.step, point.value) for point in history] == [(1, 0.5), (2, 1.0), (2, 1.0), (3, 1.5)]
    assert run.data.metrics["eval/Sokoban/pass_at_2"] == 0.25
    assert run.data.metrics["summary/success_after"] == 0.75


def test_trackio_keeps_one_run_across_attempts(tmp_path, monkeypatch):
    project = f"test-{uuid.uuid4().hex}"
    monkeypatch.setenv("TRACKIO_PROJECT", project)
    two_attempts("trackio", tmp_path)
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    (run,) = trackio.Api().runs(project)
    assert run.config["algorithm"]["group_filter"] == "std"
    rows = [row for row in SQLiteStorage.get_logs(project, run.name) if "reward/mean" in row]
    assert [(row["step"], row["reward/mean"]) for row in rows] == [(1, 0.5), (2, 1.0), (2, 1.0), (3, 1.5)]


TURN = {
    "thought": "",
    "answer": "Up",
    "format_valid": True,
    "actions": [],
    "terms": {"environment": 1.0},
    "tokens": 2,
    "truncated": False,
}
ENDED = {"turns": 1, "actions": 1, "tokens": 2}


def played(group, number):
    """The events of a trajectory of one turn."""
    name = f"{group}-{number}"
    return [
        Turn(trajectory=name, turn=0, state="A room.", response="Up</answer>", reward=1.0, **TURN),
        TrajectoryFinished(trajectory=name, success=True, end="terminated", total_reward=1.0, **ENDED),
    ]


def dialogues(groups=3, members=8):
    for number in range(groups):
        names = [f"{number}-{member}" for member in range(members)]
        yield GroupStarted(
            iteration=1,
            split="train",
            group=number,
            environment="Sokoban",
            seed=number,
            prompt="Push.",
            board=TextBoard(text="#"),
            members=names,
        )
        for member in range(members):
            yield from played(number, member)


def tracked(name, folder, events):
    book = Journal(folder)
    trackers.attach(book, [name], folder)
    for event in (started(), *events, finished()):
        book.write(event)
    book.close()
    assert not [event for event in reader.read(folder / JOURNAL_FILE) if isinstance(event, Notice)]


def test_trackio_has_some_trajectories_of_each_iteration_as_traces(tmp_path, monkeypatch):
    project = f"test-{uuid.uuid4().hex}"
    monkeypatch.setenv("TRACKIO_PROJECT", project)
    tracked("trackio", tmp_path, dialogues())
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    (run,) = trackio.Api().runs(project)
    traces = SQLiteStorage.get_traces(project, run.name)
    assert len(traces) == SampledDialogues.LIMIT < 3 * 8
    first = traces[0]
    assert [(message["role"], message["content"]) for message in first["messages"]] == [
        ("user", "Push.\n\nA room."),
        ("assistant", "Up</answer>"),
    ]
    assert (first["metadata"]["environment"], first["metadata"]["total_reward"]) == ("Sokoban", 1.0)


def test_wandb_has_some_trajectories_of_each_iteration_as_trace_trees(tmp_path):
    tracked("wandb", tmp_path, dialogues())
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    rows = [items(r.history.item) for r in wandb_records(file) if r.WhichOneof("record_type") == "history"]
    assert [row["trajectories/train/_type"] for row in rows] == ["wb_trace_tree"] * SampledDialogues.LIMIT
    root = json.loads(rows[0]["trajectories/train/root_span_dumps"])
    assert (root["name"], root["attributes"]["success"], root["span_kind"]) == ("Sokoban", True, "AGENT")
    (turn,) = root["child_spans"]
    assert turn["results"] == [{"inputs": {"state": "Push.\n\nA room."}, "outputs": {"response": "Up</answer>"}}]


def test_a_real_run_sends_the_metrics_of_its_journal(pocket_folder, tmp_path):
    config = tiny.config(pocket_folder, iterations=2, trackers=["tensorboard"])
    run_factory.run(config, tmp_path, tmp_path / "cache")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    recorded = [event for event in reader.read(tmp_path / JOURNAL_FILE) if isinstance(event, Metrics)]
    names = {name for event in recorded for name in event.values}
    assert names <= set(read.Tags()["scalars"])
    for event in recorded:
        for name, value in event.values.items():
            points = {point.step: point.value for point in read.Scalars(name)}
            assert points[event.iteration] == pytest.approx(value, rel=1e-6)


def test_a_missing_library_is_named_with_advice(pocket_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr(trackers, "find_spec", lambda module: None)
    arguments = ["train", "--preset", "sokoban-pocket", "--out", str(tmp_path), "--set", "trackers=[mlflow]"]
    assert main.main(arguments) == 2
    assert "mlflow was requested, but its library is not installed" in capsys.readouterr().err
    end = list(reader.read(tmp_path / JOURNAL_FILE))[-1]
    assert (end.type, end.reason) == ("run_finished", "error")
    assert "pip install mlflow-skinny" in end.message


class Broken(trackers.Tracker):
    """Accepts the first metrics, then fails."""

    taken: list[int] = []

    def __init__(self, place):
        self.id = "broken"

    def metrics(self, iteration, values):
        Broken.taken.append(iteration)
        if iteration > 1:
            raise ConnectionError("no route to host\nand more")

    def finish(self, end):
        raise ConnectionError("no route to host")


def test_a_failing_tracker_is_reported_once_and_dropped_after_three_failures(pocket_folder, tmp_path, monkeypatch):
    Broken.taken = []
    monkeypatch.setitem(trackers.TRACKERS, "trackio", (Broken, "trackio", "trackio"))
    config = tiny.config(pocket_folder, iterations=6, trackers=["trackio", "tensorboard"], evaluation={"prompts": 0})
    assert run_factory.run(config, tmp_path, tmp_path / "cache").reason == "completed"
    notices = [event.message for event in reader.read(tmp_path / JOURNAL_FILE) if isinstance(event, Notice)]
    assert [notice for notice in notices if "trackio" in notice] == [
        "trackio rejected an event: no route to host. The run continues, and its journal is complete. "
        "After 3 consecutive failures nothing more is sent to it."
    ]
    assert Broken.taken == [1, 2, 3, 4]


def test_a_tracker_that_cannot_be_opened_does_not_stop_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://nowhere")
    book = Journal(tmp_path)
    trackers.attach(book, ["mlflow"], tmp_path)
    book.write(started())
    book.write(metrics(1), finished())
    written = list(reader.read(tmp_path / JOURNAL_FILE))
    assert [event.type for event in written] == ["run_started", "notice", "metrics", "run_finished"]
    assert written[1].message.startswith("mlflow rejected an event")


def test_settings_name_only_existing_trackers(tmp_path):
    with pytest.raises(ValueError, match="trackers"):
        tiny.config(Path("x"), trackers=["printer"])


@pytest.mark.nightly
def test_only_configured_libraries_are_imported():
    libraries = {"wandb", "mlflow", "trackio", "tensorboard", "opentelemetry.sdk"}
    code = f"import sys, trainer.loops.train; print({libraries} & set(sys.modules))"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
