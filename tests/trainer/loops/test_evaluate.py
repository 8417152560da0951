"""Evaluation runs: any policy, no learning, suite by suite, with the usual journal."""

import json
import shutil

import pytest
import torch

from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from trainer.config.run import RunConfig
from trainer.journal.events import Evaluation, Metrics, RunStarted, Turn
from trainer.journal.protocol import JOURNAL_FILE, MODEL_FOLDER
from trainer.loops import run_factory
from trainer.loops.evaluate import evaluate, evaluation_config, missing, results, table
from trainer.loops.stages import checkpoints
from trainer.metrics.registry import get_spec
from trainer.policy.load import ModelError


def settings(model, **sections):
    data = {
        "kind": "evaluate",
        "evaluation": {"prompts": 3, "samples_per_prompt": 2, "suites": ["Bandit", "FrozenLake:size=5"]},
    }
    return tiny.config(model, **data | sections)


def play(config, folder, **extra):
    assert run_factory.get_loop(config) is evaluate
    return run_factory.run(config, folder, folder / "cache", **extra)


@pytest.fixture(scope="module")
def trained(pocket_folder, tmp_path_factory):
    """A StarPO run that evaluates its policy at the end."""
    folder = tmp_path_factory.mktemp("trained")
    run(tiny.config(pocket_folder, iterations=2, evaluation={"prompts": 3}), folder)
    return folder


@pytest.fixture(scope="module")
def whole(trained, tmp_path_factory):
    config = settings(trained)
    folder = tmp_path_factory.mktemp("evaluation")
    return config, folder, play(config, folder)


def responses(folder):
    return {(turn.trajectory, turn.turn): turn.response for turn in events(folder, Turn)}


def test_every_suite_is_played_once_and_nothing_is_learned(whole):
    _, folder, end = whole
    assert (end.reason, end.iteration, end.message) == ("completed", 0, "All 3 suites are played.")
    recorded = events(folder)
    found = [event for event in recorded if isinstance(event, Evaluation)]
    assert [event.suite for event in found] == ["Sokoban", "Bandit", "FrozenLake:size=5"]
    assert all((event.prompts, event.samples, event.final, event.iteration) == (3, 2, True, 0) for event in found)
    assert all(event.pass_at.keys() == {1, 2} for event in found)
    assert not checkpoints.checkpoint_iterations(folder)
    assert {event.type for event in recorded} == {
        "run_started",
        "phase",
        "group_started",
        "turn",
        "trajectory_finished",
        "trajectory_tokens",
        "evaluation",
        "metrics",
        "run_finished",
    }
    assert {event.suite for event in recorded if event.type == "group_started"} == {event.suite for event in found}
    for event in events(folder, Metrics):
        for name in event.values:
            get_spec(name)
    closed = [event.trajectory for event in recorded if event.type == "trajectory_finished"]
    assert len(set(closed)) == len(closed) == 3 * 3 * 2


def test_the_settings_of_a_suite_reach_its_environment(whole):
    _, folder, _ = whole
    boards = [e.board for e in events(folder) if e.type == "group_started" and e.suite == "FrozenLake:size=5"]
    assert {len(board.rows) for board in boards} == {5}


def test_a_run_folder_means_its_newest_checkpoint_and_its_evaluation(trained, tmp_path):
    config = settings(trained, evaluation={"prompts": 3, "samples_per_prompt": 1, "suites": []})
    play(config, tmp_path / "by run")
    newest = checkpoints.get_path(trained, 2)
    play(
        config.model_copy(update={"policy": config.policy.model_copy(update={"model": str(newest)})}),
        tmp_path / "by checkpoint",
    )
    in_training = {key: text for key, text in responses(trained).items() if key[0].startswith("e00002")}
    renamed = {("e00002" + name[6:], turn): text for (name, turn), text in responses(tmp_path / "by run").items()}
    assert renamed == in_training
    assert responses(tmp_path / "by run") == responses(tmp_path / "by checkpoint")


def test_more_samples_repeat_the_first_ones(trained, tmp_path):
    one = settings(trained, evaluation={"prompts": 2, "samples_per_prompt": 1, "suites": []})
    play(one, tmp_path / "one")
    play(settings(trained, evaluation={"prompts": 3, "samples_per_prompt": 3, "suites": []}), tmp_path / "three")
    first = {(name.removesuffix("-n00"), turn): text for (name, turn), text in responses(tmp_path / "three").items()}
    assert responses(tmp_path / "one").items() <= first.items()


def test_a_stopped_run_resumes_with_the_remaining_suites(whole, trained, tmp_path):
    config, unbroken, _ = whole
    end = play(config, tmp_path, stop=lambda: "Bandit" in results(tmp_path, config))
    assert (end.reason, end.message) == (
        "interrupted",
        "Stopped with 2 of 3 suites played; resume continues with the rest.",
    )
    assert [suite.name for suite in missing(tmp_path, config)] == ["FrozenLake:size=5"]
    assert play(config, tmp_path).reason == "completed"
    assert events(tmp_path, RunStarted)[1].evaluated_suites == ["Sokoban", "Bandit"]
    assert responses(tmp_path) == responses(unbroken)
    one, other = results(tmp_path, config), results(unbroken, config)
    assert {name: event.success for name, event in one.items()} == {n: event.success for n, event in other.items()}


def test_with_other_settings_all_suites_are_replayed(whole, tmp_path):
    config, folder, _ = whole
    copy = shutil.copytree(folder, tmp_path / "copy")
    other = config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"temperature": 0.9})})
    assert not results(copy, other)
    assert play(other, copy).reason == "completed"
    assert events(copy, RunStarted)[1].evaluated_suites == []
    assert len(results(copy, other)) == 3
    assert not results(copy, config), "what stood there before is superseded"


def test_a_journal_from_before_some_settings_counts_for_the_same_ones(whole, tmp_path):
    config, folder, _ = whole
    copy = shutil.copytree(folder, tmp_path / "copy")
    lines = [json.loads(line) for line in (copy / JOURNAL_FILE).read_text().splitlines()]
    for line in lines:
        if line["type"] == "run_started":
            del line["config"]["rollout"]["system"]
    (copy / JOURNAL_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert len(results(copy, config)) == 3


def test_a_finished_evaluation_plays_nothing_when_resumed(whole, tmp_path):
    config, folder, _ = whole
    copy = shutil.copytree(folder, tmp_path / "copy")
    end = play(config, copy)
    assert end.reason == "completed"
    assert responses(copy) == responses(folder)
    assert len(events(copy, Evaluation)) == 3


def test_the_table_shows_every_suite_and_pass_at_k(whole):
    config, folder, _ = whole
    lines = table(results(folder, config).values()).splitlines()
    assert lines[0].startswith("| suite | prompts | success | 95% interval | pass@2 | reward |")
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| Sokoban", "| Bandit", "| FrozenLake:size=5"]
    assert all(len(line.split("|")) == len(lines[0].split("|")) for line in lines)
    assert "| 3 × 2 |" in lines[2]


def test_the_table_names_the_variant_of_an_adapter(whole):
    config, folder, _ = whole
    shown = table(results(folder, config).values(), {"Sokoban": "Gymnasium Taxi-v4"}).splitlines()
    assert [line.split(" | ")[0] for line in shown[2:]] == ["| Gymnasium Taxi-v4", "| Bandit", "| FrozenLake:size=5"]


def test_an_evaluation_keeps_its_settings_and_uses_the_budgets_of_other_environments():
    base = RunConfig.model_validate(
        {"name": "mine", "environment": {"settings": {"size": 7}}, "rollout": {"max_turns": 9}, "seed": 4}
    )
    at_home = evaluation_config(base, "pocket", ["Bandit", "Sokoban"])
    assert at_home.kind == "evaluate"
    assert (at_home.environment.name, at_home.evaluation.suites) == ("Bandit", ["Sokoban"])
    own = evaluation_config(base, "pocket", ["Sokoban", "Bandit"])
    assert (own.environment.settings, own.rollout.max_turns) == ({"size": 7}, 9)
    assert own.title() == "Sokoban · evaluation · pocket policy, seed 4"
    assert evaluation_config(base, "pocket").environment == base.environment
    sized = evaluation_config(base, "pocket", ["FrozenLake:size=5", "Bandit"])
    assert (sized.environment.name, sized.evaluation.suites) == ("Bandit", ["FrozenLake:size=5"])
    with pytest.raises(ValueError, match="lists the same suite twice"):
        evaluation_config(base, "pocket", ["Sokoban", "Bandit", "Bandit"])
    with pytest.raises(ValueError, match="unknown environment 'Chess'"):
        evaluation_config(base, "pocket", ["Chess"])


def test_weights_are_not_changed(trained, tmp_path):
    before = torch.load(checkpoints.get_path(trained, 2) / "learner.pt", weights_only=True)
    play(settings(trained), tmp_path)
    assert torch.load(checkpoints.get_path(trained, 2) / "learner.pt", weights_only=True).keys() == before.keys()
    assert checkpoints.checkpoint_iterations(trained) == [1, 2]


def test_the_checkpoint_of_a_run_of_a_site_is_the_one_that_its_worker_has_found(trained, tmp_path, monkeypatch):
    config = tiny.config("run:k7d2mq9x4t@2", kind="evaluate", evaluation={"prompts": 3})
    with pytest.raises(ModelError, match=r"'run:k7d2mq9x4t@2' names a run of a site, which only the site can find"):
        play(config, tmp_path / "elsewhere")
    copy = shutil.copytree(trained, tmp_path / "copy")
    monkeypatch.setenv(MODEL_FOLDER, str(copy / "checkpoints" / "000002"))
    end = play(config, tmp_path / "evaluation")
    last = [event for event in events(trained, Evaluation) if event.suite == "Sokoban"][-1]
    assert (end.reason, events(tmp_path / "evaluation", Evaluation)[0].success) == ("completed", last.success)
    (copy / "checkpoints" / "000002" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelError, match=r"of run:k7d2mq9x4t@2, checkpoint 2 is damaged"):
        play(config, tmp_path / "again")
