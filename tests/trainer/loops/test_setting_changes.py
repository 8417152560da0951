"""Settings change while a run trains, as planned or requested, and the run can be repeated and resumed exactly."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer import tiny
from trainer.config.run import RunConfig
from trainer.journal import change_requests, reader
from trainer.journal.events import Metrics, Notice, RunStarted, SettingsChanged
from trainer.journal.protocol import CHANGES_FILE, JOURNAL_FILE
from trainer.loops import run_factory
from trainer.loops.stages import checkpoints

HALF = {"optimizer.policy_lr": "5e-5", "algorithm.entropy_coef": "0.01"}


def configuration(model, **sections) -> RunConfig:
    shape = {"iterations": 4, "evaluation": {"prompts": 2, "every": 4}, "checkpoint": {"every": 2, "keep": 9}}
    shape["algorithm"] = {"estimator": "gae"}
    return tiny.config(model, **shape | sections)


def play(config, folder, stop=lambda: False):
    folder.mkdir(exist_ok=True)
    return run_factory.run(config, folder, folder / "cache", stop)


def events(folder, kind):
    return [e for e in reader.read(folder / JOURNAL_FILE) if isinstance(e, kind)]


def iterations(folder):
    return max((e.iteration for e in events(folder, Metrics)), default=0) if (folder / JOURNAL_FILE).exists() else 0


def rates(folder):
    """The learning rate of each iteration."""
    found = {}
    for event in events(folder, Metrics):
        if "policy/learning_rate" in event.values:
            found[event.iteration] = event.values["policy/learning_rate"]
    return found


def assert_same_weights(one, other, iteration=4):
    one, other = (load_file(checkpoints.get_path(folder, iteration) / "model.safetensors") for folder in (one, other))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def changed(pocket_folder, tmp_path_factory):
    """A run whose rate and entropy bonus were changed by request after its second iteration."""
    folder = tmp_path_factory.mktemp("changed") / "run"
    asked = []

    def stop():
        if not asked and iterations(folder) == 2:
            asked.append(change_requests.request_change(folder, HALF, "Ada", "the curve is shaky"))
        return False

    end = play(configuration(pocket_folder), folder, stop)
    assert (end.reason, end.iteration) == ("completed", 4)
    return folder, asked[0]


def test_a_requested_change_holds_from_the_next_iteration_on(changed):
    folder, asked = changed
    (event,) = events(folder, SettingsChanged)
    assert event.model_dump(exclude={"seq", "time", "extra", "type"}) == {
        "iteration": 3,
        "changes": HALF,
        "request": asked.request,
        "by": "Ada",
        "why": "the curve is shaky",
        "rewind_from": None,
        "rewind_to": None,
        "rewinds": 0,
        "refused": "",
    }
    assert rates(folder) == {1: 1e-4, 2: 1e-4, 3: 5e-5, 4: 5e-5}
    starts = events(folder, RunStarted)
    assert [(e.attempt, e.from_iteration) for e in starts] == [(1, 0), (2, 2)]
    assert starts[1].config["algorithm"]["entropy_coef"] == 0.01
    assert starts[1].config["changes"] == {f"{name}@3": value for name, value in HALF.items()}


def test_the_same_change_as_a_setting_repeats_the_run(changed, pocket_folder, tmp_path):
    folder, _ = changed
    planned = configuration(pocket_folder, changes=events(folder, RunStarted)[-1].config["changes"])
    play(planned, tmp_path / "again")
    assert_same_weights(folder, tmp_path / "again")
    (event,) = events(tmp_path / "again", SettingsChanged)
    assert (event.iteration, event.changes, event.request) == (3, HALF, "")
    assert not [e for e in events(tmp_path / "again", Notice) if "changed" in e.message]


def test_a_changed_run_resumes_with_its_change_although_its_settings_do_not_name_it(changed, pocket_folder, tmp_path):
    folder = tmp_path / "stopped"
    folder.mkdir()
    change_requests.request_change(folder, {"optimizer.policy_lr": "3e-5"}, "", "")
    config = configuration(pocket_folder)
    assert play(config, folder, lambda: iterations(folder) == 3).reason == "interrupted"
    assert play(config, folder).reason == "completed"
    assert set(rates(folder).values()) == {3e-5}
    assert [e.iteration for e in events(folder, SettingsChanged)] == [1], "answered once"
    whole = configuration(pocket_folder, optimizer=config.optimizer.model_dump() | {"policy_lr": 3e-5})
    play(whole, tmp_path / "whole")
    assert_same_weights(folder, tmp_path / "whole")


def test_an_impossible_request_is_refused_and_the_run_goes_on(pocket_folder, tmp_path):
    for values in ({"optimizer.policy_lr": "fast"}, {"rollout.groups": "9"}, {"no.such": "1"}):
        change_requests.request_change(tmp_path, values, "Ada", "")
    assert play(configuration(pocket_folder, iterations=1), tmp_path).reason == "completed"
    refusals = [e.refused for e in events(tmp_path, SettingsChanged)]
    assert [bool(text) for text in refusals] == [True] * 3
    assert "optimizer.policy_lr: must be a number, not 'fast'" in refusals[0]
    assert "rollout.groups cannot change while a run trains" in refusals[1]
    assert len(events(tmp_path, RunStarted)) == 1
    assert len([e for e in events(tmp_path, Notice) if e.message.startswith("The settings were not changed")]) == 3


@pytest.mark.parametrize("content", ["", "[", "[]", '{"requests": [{"request": ""}]}', '{"requests": 1}', "\0"])
def test_a_damaged_file_of_requests_is_reported_once_and_ignored(pocket_folder, tmp_path, content):
    (tmp_path / CHANGES_FILE).write_text(content)
    assert play(configuration(pocket_folder, iterations=2), tmp_path).reason == "completed"
    (notice,) = [e for e in events(tmp_path, Notice) if CHANGES_FILE in e.message]
    assert notice.level == "warning"
    with pytest.raises(ValueError, match=CHANGES_FILE):
        change_requests.request_change(tmp_path, HALF, "", "")


def test_requests_are_added_to_those_before(tmp_path):
    made = [change_requests.request_change(tmp_path, HALF, "Ada", str(number)) for number in range(3)]
    assert change_requests.read_requests(tmp_path) == made
    assert [path.name for path in tmp_path.iterdir()] == [CHANGES_FILE]
    assert json.loads((tmp_path / CHANGES_FILE).read_text())["requests"][2]["why"] == "2"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"changes": {"optimizer.policy_lr": 1}}, "names no setting and iteration"),
        ({"changes": {"optimizer.policy_lr@0": 1}}, "names no setting and iteration"),
        ({"changes": {"rollout.groups@5": 1}}, "rollout.groups cannot change while a run trains"),
        (
            {"changes": {"optimizer.policy_lr@5": 7}},
            r"at iteration 5: optimizer.policy_lr: must be less than or equal|5",
        ),
        ({"changes": {"evaluation.every@5": 3}, "kind": "sft"}, "a run of kind sft"),
        (
            {
                "changes": {"evaluation.every@5": 3},
                "rollout": {"max_staleness": 1},
                "cluster": {"rollout_actors": 1},
                "algorithm": {"tis_cap": 2},
            },
            "max_staleness 0",
        ),
    ],
)
def test_impossible_plans_are_errors_of_the_configuration(settings, problem):
    with pytest.raises(ValueError, match=problem):
        RunConfig.model_validate(settings)


def test_the_newest_change_of_a_setting_holds():
    plan = {"optimizer.policy_lr@100": 1e-6, "optimizer.policy_lr@20": 1e-5, "rollout.temperature@20": 0.7}
    config = RunConfig(changes=plan)
    assert config.at_iteration(19) is config
    assert [config.at_iteration(n).optimizer.policy_lr for n in (19, 20, 99, 100)] == [1e-4, 1e-5, 1e-5, 1e-6]
    assert config.at_iteration(150).rollout.temperature == 0.7
    assert RunConfig().digest() == RunConfig(changes={}).digest() != config.digest()
