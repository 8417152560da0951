"""Generalisation matrix: rows, columns, one event, one table; each cell is played once."""

import pytest

from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from trainer.config.run import RunConfig
from trainer.journal.events import EvaluatedPolicy, Evaluation, Generalization, GeneralizationCell, RunStarted
from trainer.loops.evaluate import results
from trainer.loops.generalization import ROWS, TABLE, GeneralizationMatrix, find_run_settings, rows, table

ON = ["Sokoban", "SokobanNewVocab", "Bandit"]


@pytest.fixture(scope="module")
def base(pocket_folder):
    return tiny.config(pocket_folder, evaluation={"prompts": 2}, rollout={"max_turns": 1})


@pytest.fixture(scope="module")
def policies(pocket_folder, llama_folder):
    return [
        EvaluatedPolicy(name="pocket", source=str(pocket_folder), trained_on="Sokoban"),
        EvaluatedPolicy(name="llama", source=str(llama_folder)),
    ]


def matrix(base, policies, folder, **extra):
    return GeneralizationMatrix(base, policies, ON, folder, folder / "cache", **extra)


@pytest.fixture(scope="module")
def whole(base, policies, tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    return folder, *matrix(base, policies, folder).play()


def test_every_policy_is_played_in_every_suite(whole, base, policies):
    folder, end, result = whole
    assert (end.reason, end.message) == ("completed", "All 6 cells are played.")
    assert [(cell.policy, cell.suite) for cell in result.cells] == [(p.name, s) for p in policies for s in ON]
    assert result.suites == ON
    assert [(p.name, p.trained_on) for p in result.policies] == [("pocket", "Sokoban"), ("llama", None)]
    recorded = events(folder)
    assert [event.type for event in recorded] == ["run_started", "phase", "phase", "generalization", "run_finished"]
    assert recorded[-2] == result
    assert (folder / TABLE).read_text(encoding="utf-8") == table(result)


def test_rows_are_separate_runs_with_the_same_prompts(whole, base, policies):
    folder, _, result = whole
    by_row = {}
    for row in policies:
        place = folder / ROWS / row.name
        by_row[row.name] = [e.board for e in events(place) if e.type == "group_started"]
        found = {event.suite: event.success for event in events(place, Evaluation)}
        assert found == {cell.suite: cell.success for cell in result.cells if cell.policy == row.name}
    assert by_row["pocket"] == by_row["llama"]


def test_a_stopped_matrix_is_resumed(whole, base, policies, tmp_path):
    _, _, result = whole
    second = matrix(base, policies, tmp_path).configs["llama"]
    end, nothing = matrix(
        base, policies, tmp_path, stop=lambda: "Sokoban" in results(tmp_path / ROWS / "llama", second)
    ).play()
    assert (end.reason, nothing) == ("interrupted", None)
    assert end.message == "Stopped at policy llama; resume continues there."
    end, again = matrix(base, policies, tmp_path).play()
    assert end.reason == "completed"
    assert again.cells == result.cells
    assert len(events(tmp_path / ROWS / "pocket", RunStarted)) == 1, "what was finished is not opened again"
    assert [event.evaluated_suites for event in events(tmp_path / ROWS / "llama", RunStarted)] == [[], ["Sokoban"]]
    assert [event.attempt for event in events(tmp_path, RunStarted)] == [1, 2]


def test_policies_are_named_by_folder_or_by_label():
    found = rows(["pocket", "best=/models/a", "Qwen/Qwen2.5-0.5B-Instruct"])
    assert [(row.name, row.source) for row in found] == [
        ("pocket", "pocket"),
        ("best", "/models/a"),
        ("Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"),
    ]
    with pytest.raises(ValueError, match="two policies have the name 'a': give them names"):
        rows(["/one/a", "/two/a"])
    with pytest.raises(ValueError, match="cannot name a policy"):
        rows(["../up=/models/a"])


def test_a_run_folder_gives_the_training_environment(pocket_folder, tmp_path):
    config = tiny.config(pocket_folder, iterations=1, environment={"name": "Bandit"}, evaluation={"prompts": 0})
    run(config, tmp_path)
    (tmp_path / "config.yaml").write_text("environment: {name: Bandit}\n")
    assert rows([str(tmp_path)])[0].trained_on == "Bandit"
    assert find_run_settings(str(tmp_path / "checkpoints" / "000001")) == RunConfig.model_validate(
        {"environment": {"name": "Bandit"}}
    )
    assert find_run_settings("Qwen/Qwen2.5-0.5B-Instruct") is None
    assert rows([str(pocket_folder)])[0].trained_on is None


def test_an_unknown_suite_is_reported_before_play(base, policies, tmp_path):
    with pytest.raises(ValueError, match="unknown environment 'Chess'"):
        GeneralizationMatrix(base, policies, ["Chess"], tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_table_prints_a_policys_own_environment_bold():
    cell = {"prompts": 4, "success": 0.5, "success_low": 0.2, "success_high": 0.8, "mean_reward": 1.0}
    event = Generalization(
        policies=[EvaluatedPolicy(name="p", source="x", trained_on="Bandit"), EvaluatedPolicy(name="q", source="y")],
        suites=["Bandit", "BanditRev"],
        cells=[GeneralizationCell(policy=p, suite=s, **cell) for p in "pq" for s in ("Bandit", "BanditRev")],
    )
    assert table(event).splitlines() == [
        "| policy | trained on | Bandit | BanditRev |",
        "| --- | --- | ---: | ---: |",
        "| p | Bandit | **50.0%** (20.0–80.0) | 50.0% (20.0–80.0) |",
        "| q | not known | 50.0% (20.0–80.0) | 50.0% (20.0–80.0) |",
        "",
        "Success on the same 4 prompts for every policy, with the 95% Wilson interval.",
    ]
