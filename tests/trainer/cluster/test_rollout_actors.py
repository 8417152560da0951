"""Rollouts on Ray actors: the same run as in one process, stop and resume, lost actors."""

import os
import signal

import psutil
import pytest

from tests.trainer import tiny
from tests.trainer.cluster.journals import check_order, facts
from tests.trainer.loops.test_train import count_turns, events, run, same_weights, weights
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.journal.events import Notice, RunStarted
from trainer.rollout.runner import EnvironmentsFailedError

pytestmark = pytest.mark.usefixtures("cluster")


def on_actors(config: RunConfig, actors: int, **cluster: object) -> RunConfig:
    data = config.model_dump()
    data["cluster"] |= {"rollout_actors": actors, **cluster}
    return RunConfig.model_validate(data)


def small(folder, **sections):
    """Three groups, each in a session of its own."""
    parts = {
        "rollout": {"groups": 3, "groups_per_session": 1},
        "algorithm": {"drop_zero_std": False},
        "evaluation": {"prompts": 3},
    }
    return tiny.config(folder, **(parts | sections))


def actor_pids() -> list[int]:
    """Processes of the rollout actors of this test's cluster."""
    family = psutil.Process().children(recursive=True)
    return [process.pid for process in family if _title(process).startswith("ray::RolloutActor")]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_the_pocket_preset_is_bit_for_bit_the_same_on_three_actors(tmp_path):
    changes = ["iterations=5", "rollout.groups=3", "rollout.group_size=4", "rollout.max_turns=3"]
    changes += ["rollout.groups_per_session=1", "policy.threads=1", "policy.device=cpu", "evaluation.prompts=4"]
    config = with_overrides(load_preset("sokoban-starpo_s-pocket"), changes)
    run(config, tmp_path / "one")
    run(on_actors(config, 3), tmp_path / "three")
    same_weights(weights(tmp_path / "one"), weights(tmp_path / "three"))
    assert facts(tmp_path / "one") == facts(tmp_path / "three")
    check_order(tmp_path / "three")


def test_adapters_are_passed_to_actors_also_on_resume(llama_folder, tmp_path):
    config = small(llama_folder, lora={"rank": 4, "alpha": 8}, iterations=3)
    run(config, tmp_path / "one")
    folder = tmp_path / "two"
    end = run(on_actors(config, 2), folder, stop=lambda: count_turns(folder, 2) > 0)
    assert (end.reason, end.iteration) == ("interrupted", 1)
    check_order(folder)
    run(on_actors(config, 2), folder)
    assert [event.from_iteration for event in events(folder, RunStarted)] == [0, 1]
    same_weights(weights(tmp_path / "one"), weights(folder))


def test_groups_of_a_killed_actor_are_played_again_by_another(llama_folder, tmp_path):
    config = small(llama_folder, iterations=2)
    run(config, tmp_path / "one")
    folder = tmp_path / "two"
    killed = []

    def kill_once():
        if not killed and count_turns(folder, 2):
            killed.append(actor_pids()[0])
            os.kill(killed[0], signal.SIGKILL)
        return False

    assert run(on_actors(config, 2), folder, stop=kill_once).reason == "completed"
    (notice,) = events(folder, Notice)
    assert f"process {killed[0]} was lost and is replaced" in notice.message
    check_order(folder)
    recorded = [fact for fact in facts(folder) if '"type": "notice"' not in fact]
    assert recorded == facts(tmp_path / "one")
    same_weights(weights(tmp_path / "one"), weights(folder))


def test_an_environment_that_fails_everywhere_ends_the_run_with_the_reason(llama_folder, tmp_path):
    config = small(llama_folder, environment={"name": "Boxoban", "settings": {"path": "/nowhere"}})
    with pytest.raises(EnvironmentsFailedError, match="no trajectory could be played to its end"):
        run(on_actors(config, 2), tmp_path / "run")
    check_order(tmp_path / "run")


def test_a_suite_is_played_by_actors_as_by_one_process(llama_folder, tmp_path):
    config = small(llama_folder, kind="evaluate", evaluation={"prompts": 4})
    run(config, tmp_path / "one")
    run(on_actors(config, 2), tmp_path / "two")
    assert facts(tmp_path / "one") == facts(tmp_path / "two")
    check_order(tmp_path / "two")
