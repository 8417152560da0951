"""Environments that hang, crash or raise: their trajectories end and are excluded; the others continue."""

import pytest

from tests.envs.plugins import offering
from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from tests.trainer.loops.test_train import events, run
from tests.trainer.rollout.test_runner import player, train_request
from trainer import timeouts
from trainer.cli import main
from trainer.config.run import RunConfig
from trainer.rollout.runner import EnvironmentsFailedError
from trainer.rollout.trajectory import collate

HUNG = "the environment failed: no answer to {} within 1.5 s (ECHOSCOPE_TIMEOUT_ENVIRONMENT_STEP)"


@pytest.fixture(autouse=True)
def _trouble(tmp_path_factory, monkeypatch):
    monkeypatch.setenv(timeouts.ENVIRONMENT_STEP.variable, "1.5")
    with offering(tmp_path_factory.mktemp("package"), Trouble="tests.envs.broken_env:Trouble"):
        yield


def broken_config(**settings):
    return {"name": "Trouble", "settings": settings}


def play(chat, settings, sizes, actions=("Go", "Go")):
    """Groups of the given sizes, dynamics seeds from 0 (group 0) and 100 (group 1) on; equal responses."""
    config = RunConfig.model_validate({"environment": broken_config(**settings)})
    script = [[tiny.sampled(chat, tiny.answer(*actions))] * 5 for _ in range(sum(sizes))]
    emitted = []
    runner = player(config, chat, ScriptedSampler(script), emitted)
    try:
        return runner.play(train_request(config, sizes)), emitted
    finally:
        runner.close()


@pytest.mark.parametrize(("when", "how"), [("step", "loop"), ("hint", "sleep"), ("step", "leave")])
def test_a_step_that_never_ends_ends_its_own_trajectory_only(chat, when, how):
    played, emitted = play(chat, {"when": when, "how": how, "every": 2}, [3])
    assert [t.end for t in played] == ["truncated", "terminated", "truncated"]
    assert [t.failed for t in played] == [True, False, True]
    assert [t.success for t in played] == [False, True, False]
    exited = "the environment failed: during step('Go') its process ended with exit status 3"
    assert {t.error for t in played if t.failed} == {exited if how == "leave" else HUNG.format("step('Go')")}
    closings = {event.trajectory: event for event in emitted if event.type == "trajectory_finished"}
    assert [closings[t.id].error for t in played] == [t.error for t in played]
    last = played[0].turns[-1]
    assert [action.status for action in last.actions] == ["executed", "ignored"]
    assert [len(t.turns) for t in played] == [1, 4, 1]


@pytest.mark.parametrize("how", ["loop", "fail"])
def test_a_failed_reset_gives_no_turns_and_its_group_starts_from_the_others(chat, how):
    played, emitted = play(chat, {"when": "reset", "how": how, "every": 3}, [3, 2])
    assert [(t.end, len(t.turns), t.failed) for t in played] == [
        ("truncated", 0, True),
        ("terminated", 4, False),
        ("terminated", 4, False),
        ("terminated", 4, False),
        ("terminated", 4, False),
    ]
    assert [event.type for event in emitted[:3]] == ["group_started", "trajectory_finished", "group_started"]
    first, end, _ = emitted[:3]
    assert first.members == ["g0n0", "g0n1", "g0n2"]
    assert first.board.text == ""
    assert "Go." in first.prompt
    assert (end.trajectory, end.turns, end.tokens, end.total_reward) == ("g0n0", 0, 0, 0)
    assert end.error == (
        HUNG.format("reset()") if how == "loop" else "the environment failed: RuntimeError: the pipe is broken"
    )


def test_a_group_without_any_start_is_reported_with_the_reason(chat):
    played, emitted = play(chat, {"when": "reset", "how": "fail", "every": 100}, [1, 2])
    assert [t.failed for t in played] == [True, True, False]
    started = emitted[0]
    assert started.type == "group_started"
    assert started.board.text == "the environment failed: RuntimeError: the pipe is broken"
    assert started.hint is None


@pytest.mark.parametrize("when", ["make", "reset", "step"])
def test_an_environment_that_always_fails_fails_the_rollout(chat, when):
    with pytest.raises(EnvironmentsFailedError, match=r"RuntimeError: the pipe is broken \(3 of 3\)"):
        play(chat, {"when": when, "how": "fail"}, [3])


def parse_as_go(response, *, think, max_actions):
    from trainer.rollout.response_parser import parse_response

    return parse_response(tiny.answer("Go", "Go"), think=True, max_actions=max_actions)


def test_failed_trajectories_are_excluded_from_training_and_metrics(pocket_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.rollout.episode.parse_response", parse_as_go)
    batches = []
    monkeypatch.setattr(
        "trainer.loops.train.collate", lambda kept, *rest, **more: batches.append(kept) or collate(kept, *rest, **more)
    )
    config = tiny.config(
        pocket_folder,
        iterations=1,
        environment=broken_config(when="step", how="leave", every=2),
        rollout={"group_size": 6},
        algorithm={"estimator": "gae", "drop_zero_std": False},
        evaluation={"prompts": 8},
    )
    end = run(config, tmp_path)
    assert end.reason == "completed"
    emitted = events(tmp_path)
    closings = {event.trajectory: event for event in emitted if event.type == "trajectory_finished"}
    broken = {name for name, event in closings.items() if event.error}
    trained = {name for name in closings if name.startswith("00001")}
    assert broken & trained
    assert trained - broken
    assert {t.id for t in batches[0]} == trained - broken
    values = next(event.values for event in emitted if event.type == "metrics" and "reward/mean" in event.values)
    assert values["rollout/failed_environments"] == len(broken & trained)
    assert values["reward/mean"] == pytest.approx(4.0)
    assert values["actions/mean"] == pytest.approx(4.0)
    evaluations = [event for event in emitted if event.type == "evaluation"]
    assert {event.prompts for event in evaluations} == {8 - len(broken - trained) // 2}
    notices = [event.message for event in emitted if event.type == "notice"]
    excluded, without_reference = notices
    assert "are excluded from metrics and training" in excluded
    assert without_reference.startswith("There is no best and random play of Trouble to compare with")
    assert all("exit status 3" in notice for notice in notices)


def test_a_run_whose_environment_always_fails_stops_with_the_reason(pocket_folder, tmp_path, capsys, monkeypatch):
    config = tiny.config(pocket_folder, environment=broken_config(when="reset", how="fail"), evaluation={"prompts": 0})
    arguments = ["train", "--preset", "sokoban-pocket", "--out", str(tmp_path / "run")]
    for section, values in config.model_dump(
        mode="json", include={"environment", "policy", "rollout", "evaluation"}
    ).items():
        for name, value in values.items():
            arguments += ["--set", f"{section}.{name}={value if value is not None else 'null'}"]
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    assert main.main(arguments) == 1
    reason = (
        "no trajectory could be played to its end: the environment failed: RuntimeError: the pipe is broken (6 of 6)"
    )
    assert f"error: {reason}" in capsys.readouterr().err
    end = events(tmp_path / "run")[-1]
    assert (end.type, end.reason, end.message) == ("run_finished", "error", reason)
