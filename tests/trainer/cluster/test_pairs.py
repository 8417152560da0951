"""A learner and a rollout actor on each GPU of a machine: what `--processes` starts."""

import json
import subprocess
import sys

import pytest
import yaml

from tests.trainer import tiny
from tests.trainer.cluster.journals import check_order
from tests.trainer.cluster.test_learner_actors import REINFORCE, near, responses, small
from tests.trainer.loops.test_train import events, run, weights
from trainer.cli import main as cli
from trainer.config.resources import HALVES, ActorRequest, ClusterConfig
from trainer.config.run import RunConfig
from trainer.journal.events import RunStarted


@pytest.mark.nightly
def test_each_pair_has_a_gpu_of_its_own():
    script = [sys.executable, "-m", "tests.trainer.cluster.shared_gpus", "3", "3"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    given = json.loads(done.stdout.splitlines()[-1])
    assert given[:3] == given[3:], "a learner and its rollout actor have the same"
    assert sorted(given[:3]) == [[0], [1], [2]], "and no other pair has it"


@pytest.mark.nightly
@pytest.mark.usefixtures("cluster")
def test_a_run_of_two_processes_takes_the_steps_of_one(llama_folder, tmp_path):
    config = small(llama_folder, algorithm=REINFORCE)
    run(config, tmp_path / "one")
    given, folder = tmp_path / "two.yaml", tmp_path / "two"
    given.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    arguments = ["train", "--config", str(given), "--out", str(folder), "--processes", "2"]
    assert cli.main(arguments) == 0
    assert responses(folder) == responses(tmp_path / "one")
    assert near(weights(folder), weights(tmp_path / "one")) < 1e-5
    check_order(folder)
    (started,) = events(folder, RunStarted)
    assert (started.config["cluster"]["learners"], started.config["cluster"]["rollout_actors"]) == (2, 2)
    saved = yaml.safe_load((folder / "config.yaml").read_text())
    assert saved["cluster"]["learners"] == 0, "the settings are those that were given, for any number of processes"


def test_processes_change_nothing_but_the_actors():
    config = tiny.config("pocket")
    several = config.with_processes(3)
    assert (several.cluster.learners, several.cluster.rollout_actors, several.cluster.shares_gpus) == (3, 3, True)
    assert several.model_copy(update={"cluster": config.cluster}) == config


def test_an_engine_over_several_gpus_leaves_none_to_pairs(capsys, tmp_path):
    arguments = ["train", "--preset", "sokoban-starpo_s-pocket", "--out", str(tmp_path), "--processes", "2"]
    assert cli.main([*arguments, "--set", "engine.name=vllm", "--set", "cluster.resources={rollout_gpus: 2}"]) == 2
    assert "leave --processes out, or rollout_gpus out of cluster.resources" in capsys.readouterr().err


def test_servers_sample_for_several_learners_without_rollout_actors():
    engine = {"name": "server", "urls": ["http://gpu1:8000"]}
    cluster = RunConfig.model_validate({"engine": engine}).with_processes(2).cluster
    assert (cluster.learners, cluster.rollout_actors, cluster.shares_gpus) == (2, 0, False)


def test_a_pair_is_requested_as_one_where_both_are_needed():
    cluster = ClusterConfig(learners=2, rollout_actors=2, resources={"rollout_cpus": 3, **HALVES})
    assert cluster.actors("train", "auto") == (ActorRequest(2, 4.0, None),)
    assert cluster.actors("train", "cpu") == (ActorRequest(2, 4.0, 0.0),)
    assert cluster.actors("evaluate", "auto") == (ActorRequest(2, 3, None),), "no learner has the other half"


def test_what_cannot_be_paired_is_refused_with_advice():
    with pytest.raises(ValueError, match="set rollout_actors and learners to the number of GPUs"):
        ClusterConfig(learners=2, rollout_actors=3, resources=dict(HALVES))


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5"])
def test_another_number_of_processes_is_refused(capsys, tmp_path, count):
    with pytest.raises(SystemExit) as caught:
        cli.main(["train", "--preset", "sokoban-starpo_s-pocket", "--out", str(tmp_path), "--processes", count])
    assert caught.value.code == 2
    assert "must be a number of at least 1" in capsys.readouterr().err


def test_torchrun_is_answered_with_the_command_that_replaced_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "4")
    arguments = ["train", "--preset", "sokoban-starpo_s-pocket", "--out", str(tmp_path / "run")]
    monkeypatch.setenv("RANK", "0")
    assert cli.main(arguments) == 2
    assert "start one process by `python -m trainer train` with the option --processes 4" in capsys.readouterr().err
    monkeypatch.setenv("RANK", "1")
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err == "", "it is said once"
    assert not (tmp_path / "run").exists()
