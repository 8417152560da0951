"""Headers of Inspect logs become settings, title and names of suites, so that logs can be compared."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings

from echoscope.importers.formats import ImportOptions
from echoscope.importers.importing import import_files
from echoscope.importers.inspect_headers import InspectHeader, InspectHeaders
from echoscope.importers.records import ImportFailed
from tests.webapp.conftest import People
from trainer.journal.events import AnyEvent
from trainer.journal.reader import read
from webapp.explorer.compare import differences
from webapp.runs.models import Run

SAMPLE: dict[str, Any] = {
    "id": "sum-1",
    "epoch": 1,
    "messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}],
    "scores": {"match": {"value": "C"}, "style": {"value": 0.5, "explanation": "brief"}, "tone": {"value": {"a": 1}}},
}
EVAL: dict[str, Any] = {
    "eval_id": "e1",
    "created": "2026-01-02T03:04:05+00:00",
    "task": "sums",
    "task_args": {"digits": 2},
    "dataset": {"name": "sums-easy", "samples": 1, "sample_ids": ["sum-1"]},
    "model": "openai/m-7b",
    "model_args": {"api_key": "sk-1", "precision": "bf16"},
    "model_generate_config": {"extra_headers": {"Authorization": "x"}, "temperature": 0.5},
    "model_base_url": None,
    "config": {"epochs": 3, "limit": 10},
}
PLAN = {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {"max_tokens": 512}}
STATS = {"started_at": "2026-01-02", "model_usage": {"openai/m-7b": {"output_tokens": 12}}}


def log_of(**described: Any) -> dict[str, Any]:
    header = {"version": 2, "status": "success", "eval": EVAL | described, "plan": PLAN, "stats": STATS}
    return {**header, "samples": [SAMPLE]}


def written(file: Path, log: dict[str, Any]) -> Path:
    """The log as JSON, or as an archive by the ending of the file."""
    if file.suffix == ".json":
        file.write_text(json.dumps(log))
        return file
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("header.json", json.dumps({name: part for name, part in log.items() if name != "samples"}))
        packed.writestr("samples/sum-1_epoch_1.json", json.dumps(SAMPLE))
    return file


def imported(folder: Path, *files: Path, **options: Any) -> list[AnyEvent]:
    import_files(files, folder, **options)
    return list(read(folder / "journal.jsonl"))


def of_type(events: list[AnyEvent], kind: str) -> list[Any]:
    return [event for event in events if event.type == kind]


@pytest.mark.parametrize("ending", ["json", "eval"])
def test_the_header_is_the_recorded_configuration_and_names_the_run(ending: str, tmp_path: Path) -> None:
    started, *_ = imported(tmp_path / "run", written(tmp_path / f"log.{ending}", log_of()))
    assert started.type == "run_started"
    recorded = started.config["recorded"]
    assert started.title == "sums · openai/m-7b"
    assert started.config["environment"] == {"name": "sums"}
    assert recorded["model"] == "openai/m-7b"
    assert recorded["task_args"] == {"digits": 2}
    assert recorded["dataset"] == EVAL["dataset"]
    assert recorded["config"] == {"epochs": 3, "limit": 10}
    assert recorded["plan"] == PLAN
    assert recorded["stats"] == STATS


def test_keys_and_headers_of_requests_are_not_recorded(tmp_path: Path) -> None:
    started, *_ = imported(tmp_path / "run", written(tmp_path / "log.json", log_of()))
    assert started.type == "run_started"
    recorded = started.config["recorded"]
    assert recorded["model_args"] == {"precision": "bf16"}
    assert recorded["model_generate_config"] == {"temperature": 0.5}
    assert "model_base_url" not in recorded
    assert "sk-1" not in (tmp_path / "run" / "journal.jsonl").read_text()


def test_an_evaluation_that_was_stopped_has_the_header_of_its_start(tmp_path: Path) -> None:
    file = tmp_path / "log.eval"
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("_journal/start.json", json.dumps({"version": 2, "eval": EVAL, "plan": PLAN}))
        packed.writestr("samples/sum-1_epoch_1.json", json.dumps(SAMPLE))
    started, *_ = imported(tmp_path / "run", file)
    assert started.type == "run_started"
    assert started.title == "sums · openai/m-7b"
    assert started.config["recorded"]["plan"] == PLAN
    assert "stats" not in started.config["recorded"]


@pytest.mark.parametrize(
    ("described", "options", "title"),
    [
        ({}, {"title": "Mine"}, "Mine"),
        ({}, {"options": ImportOptions(environment="Sums")}, "Sums · openai/m-7b"),
        ({"model": "none/none"}, {}, "sums"),
        ({"task": None, "model": None}, {}, "log"),
    ],
)
def test_the_title_is_task_and_model_where_none_is_given(
    described: dict[str, Any], options: dict[str, Any], title: str, tmp_path: Path
) -> None:
    started, *_ = imported(tmp_path / "run", written(tmp_path / "log.json", log_of(**described)), **options)
    assert started.type == "run_started"
    assert started.title == title


def test_all_scorers_stay_with_the_sample_and_the_first_is_its_reward(tmp_path: Path) -> None:
    events = imported(tmp_path / "run", written(tmp_path / "log.json", log_of()))
    (turn,), (end,) = of_type(events, "turn"), of_type(events, "trajectory_finished")
    assert turn.terms == {"match": 1.0}
    assert end.extra["record"]["scores"] == SAMPLE["scores"]


def test_a_score_that_is_not_finite_is_no_reward(tmp_path: Path) -> None:
    log = log_of()
    log["samples"] = [SAMPLE | {"scores": {"match": {"value": float("nan")}}}]
    events = imported(tmp_path / "run", written(tmp_path / "log.json", log))
    assert of_type(events, "trajectory_finished")[0].total_reward is None


def test_logs_of_several_models_in_one_run_are_several_evaluations(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a.eval", log_of()),
        written(tmp_path / "b.json", log_of(model="openai/m-70b")),
        written(tmp_path / "c.json", log_of(task_args={"digits": 4})),
    ]
    events = imported(tmp_path / "run", *files)
    assert [event.suite for event in of_type(events, "evaluation")] == [
        "sums · openai/m-7b · digits=2",
        "sums · openai/m-70b",
        "sums · openai/m-7b · digits=4",
    ]
    groups = of_type(events, "group_started")
    assert {group.environment for group in groups} == {"sums"}
    assert len({group.seed for group in groups}) == 1
    started = events[0]
    assert started.type == "run_started"
    assert started.title == "a"
    recorded = started.config["recorded"]
    assert recorded["dataset"] == EVAL["dataset"]
    assert recorded["logs"] == {
        str(files[0]): {"model": "openai/m-7b", "task_args": {"digits": 2}},
        str(files[1]): {"model": "openai/m-70b", "task_args": {"digits": 2}},
        str(files[2]): {"model": "openai/m-7b", "task_args": {"digits": 4}},
    }


def test_logs_of_the_same_settings_are_one_evaluation(tmp_path: Path) -> None:
    files = [written(tmp_path / name, log_of(eval_id=name)) for name in ("a.json", "b.eval")]
    events = imported(tmp_path / "run", *files)
    assert [(event.suite, event.samples) for event in of_type(events, "evaluation")] == [("sums", 2)]
    assert len(of_type(events, "group_started")) == 1
    started = events[0]
    assert started.type == "run_started"
    assert started.title == "sums · openai/m-7b"


def test_the_comparison_of_two_logs_shows_model_and_arguments(
    people: People, tmp_path: Path, settings: Settings
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    for name, described in (("a", {}), ("b", {"model": "openai/m-70b", "task_args": {"digits": 4}})):
        imported(tmp_path / name, written(tmp_path / f"{name}.json", log_of(**described)))
        call_command("import_journal", str(tmp_path / name), "--team", people.team.slug, "--user", "ada")
    runs = list(Run.objects.filter(imported=True).order_by("pk"))
    assert [run.title for run in runs] == ["sums · openai/m-7b", "sums · openai/m-70b"]
    (group,) = differences(runs)
    values = {difference.name: difference.values for difference in group.differences}
    assert sorted(values) == ["imported_from", "model", "task_args.digits"]
    assert values["model"] == ["openai/m-7b", "openai/m-70b"]
    assert values["task_args.digits"] == ["2", "4"]


def test_names_of_suites_fit_a_site_and_differ() -> None:
    logs = [{"eval": {"task": "t", "model": "m", "task_args": {"prompt": "x" * 200 + end}}} for end in "ab"]
    headers = [InspectHeader.of_log(f"{number}", log) for number, log in enumerate(logs)]
    names = [InspectHeaders(headers).suite(header) for header in headers]
    assert [len(name) for name in names] == [100, 100]
    assert names[0] != names[1]


def test_a_cancelled_log_says_that_no_sample_ended(tmp_path: Path) -> None:
    log = log_of() | {"status": "cancelled", "samples": []}
    with pytest.raises(ImportFailed, match=r"the evaluation ended before any of its samples \(status cancelled\)"):
        import_files([written(tmp_path / "a.json", log)], tmp_path / "run")


def test_a_later_log_that_is_damaged_leaves_nothing_behind(tmp_path: Path) -> None:
    damaged = tmp_path / "b.json"
    damaged.write_text(json.dumps(log_of())[:-5])
    with pytest.raises(ImportFailed, match=r"b\.json, line 1: it is not JSON"):
        import_files([written(tmp_path / "a.json", log_of()), damaged], tmp_path / "run")
    assert not (tmp_path / "run").exists()
