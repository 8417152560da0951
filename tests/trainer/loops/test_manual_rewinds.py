"""A run rewinds by hand to any kept checkpoint, as planned or requested, and can be repeated and resumed exactly."""

from __future__ import annotations

import pytest

from tests.trainer.loops.test_rewind import configuration as rewinding
from tests.trainer.loops.test_rewind import play as play_scripted
from tests.trainer.loops.test_rewind import seeds_of_attempts
from tests.trainer.loops.test_setting_changes import assert_same_weights, configuration, events, iterations, play
from trainer.config.run import RunConfig
from trainer.journal import change_requests
from trainer.journal.events import CheckpointRemoved, Metrics, Rewound, RunStarted, SettingsChanged, Turn
from trainer.loops.stages import checkpoints

SLOWER = {"optimizer.policy_lr": "5e-5"}
OFTEN = {"every": 1, "keep": 9}


def asks(folder, *, at=3, to=1, values=SLOWER):
    """A stop function that asks for a rewind once the run gets so far."""
    asked = []

    def stop():
        if not asked and iterations(folder) == at:
            asked.append(change_requests.request_change(folder, values, "Ada", "it collapsed", to))
        return False

    return stop


def played_last(folder):
    return {(e.trajectory, e.turn): (e.state, e.response, e.logprob) for e in events(folder, Turn)}


def facts(folder):
    """What the journal says of rewinds, without times and the identities of requests."""
    found = events(folder, (SettingsChanged, Rewound, CheckpointRemoved))
    return [e.model_dump(exclude={"seq", "time", "request"}) for e in found]


@pytest.fixture(scope="module")
def rewound(pocket_folder, tmp_path_factory):
    """A run that went back from iteration 3 to 1, with half of its rate from there."""
    folder = tmp_path_factory.mktemp("rewound") / "run"
    end = play(configuration(pocket_folder, checkpoint=OFTEN), folder, asks(folder))
    assert (end.reason, end.iteration) == ("completed", 4)
    return folder


def test_a_requested_rewind_goes_back_and_plays_on_with_other_puzzles_and_settings(rewound):
    (answer,) = events(rewound, SettingsChanged)
    assert (answer.rewind_from, answer.rewind_to, answer.iteration, answer.rewinds) == (3, 1, 2, 1)
    assert (answer.by, answer.why, answer.changes, answer.refused) == ("Ada", "it collapsed", SLOWER, "")
    (made,) = events(rewound, Rewound)
    assert (made.number, made.from_iteration, made.to_iteration, made.changes) == (
        1,
        3,
        1,
        {"optimizer.policy_lr": "5e-05"},
    )
    starts = events(rewound, RunStarted)
    assert [(e.attempt, e.from_iteration) for e in starts] == [(1, 0), (2, 1)]
    assert starts[1].config["rewinds"] == {"3": "1"}
    assert starts[1].config["changes"] == {"optimizer.policy_lr@2/1": "5e-5"}
    assert [e.iteration for e in events(rewound, CheckpointRemoved)] == [3, 2]
    rates = [
        (e.iteration, e.values["policy/learning_rate"]) for e in events(rewound, Metrics) if "update/steps" in e.values
    ]
    assert rates == [(1, 1e-4), (2, 1e-4), (3, 1e-4), (2, 5e-5), (3, 5e-5), (4, 5e-5)]
    first, second = seeds_of_attempts(rewound)
    assert not first & second


def test_the_same_rewind_as_a_setting_repeats_the_run(rewound, pocket_folder, tmp_path):
    plan = {name: events(rewound, RunStarted)[-1].config[name] for name in ("changes", "rewinds")}
    planned = configuration(pocket_folder, **plan, checkpoint={"every": 4, "keep": 1})
    play(planned, tmp_path)
    assert_same_weights(rewound, tmp_path)
    assert played_last(rewound) == played_last(tmp_path)
    (answer,) = events(tmp_path, SettingsChanged)
    assert (answer.request, answer.rewind_from, answer.rewind_to, answer.changes) == ("", 3, 1, SLOWER)
    assert len(events(tmp_path, Rewound)) == 1, "not again when iteration 3 is reached again"
    assert checkpoints.checkpoint_iterations(tmp_path) == [4], "what was kept for the plan is pruned once it is done"


@pytest.mark.parametrize(
    "place",
    [
        "trainer.loops.stages.checkpoints.update_progress",
        "trainer.loops.stages.checkpoints.drop_superseded",
        "trainer.loops.session.count_rewinds",
        "trainer.loops.train.load_policy",
    ],
)
def test_a_kill_at_any_moment_of_a_rewind_changes_nothing(rewound, pocket_folder, tmp_path, monkeypatch, place):
    config = configuration(pocket_folder, checkpoint=OFTEN)
    ask = asks(tmp_path)
    with monkeypatch.context() as patch:
        module, _, name = place.rpartition(".")
        real = getattr(__import__(module, fromlist=[name]), name)

        def killed(*arguments, **options):
            if iterations(tmp_path) < 3:
                return real(*arguments, **options)
            raise KeyboardInterrupt

        patch.setattr(place, killed)
        with pytest.raises(KeyboardInterrupt):
            play(config, tmp_path, ask)
    assert play(config, tmp_path, ask).reason == "completed"
    assert facts(tmp_path) == facts(rewound)
    assert played_last(tmp_path) == played_last(rewound)
    assert_same_weights(tmp_path, rewound)


def test_a_run_stopped_after_a_rewind_resumes_identically(rewound, pocket_folder, tmp_path):
    config, ask = configuration(pocket_folder, checkpoint=OFTEN), asks(tmp_path)

    def stop():
        return ask() or (len(events(tmp_path, RunStarted)) == 2 and isinstance(events(tmp_path, object)[-1], Turn))

    assert play(config, tmp_path, lambda: iterations(tmp_path) > 0 and stop()).reason == "interrupted"
    assert play(config, tmp_path).reason == "completed"
    assert facts(tmp_path) == facts(rewound)
    assert_same_weights(tmp_path, rewound)


def test_a_requested_checkpoint_is_kept_until_the_rewind(pocket_folder, tmp_path):
    config = configuration(pocket_folder, checkpoint={"every": 1, "keep": 2}, evaluation={"prompts": 0})
    asked = []

    def stop():  # within iteration 3, whose checkpoint would replace the one of iteration 1
        if not asked and iterations(tmp_path) == 2 and isinstance(events(tmp_path, object)[-1], Turn):
            asked.append(change_requests.request_change(tmp_path, {}, "", "", 1))
        return False

    assert play(config, tmp_path, stop).reason == "completed"
    assert [(e.from_iteration, e.to_iteration) for e in events(tmp_path, Rewound)] == [(3, 1)]


def test_impossible_rewinds_are_refused_and_the_run_goes_on(pocket_folder, tmp_path):
    config = configuration(pocket_folder, iterations=3, checkpoint={"every": 1, "keep": 2})

    def stop():
        if iterations(tmp_path) == 2 and not change_requests.read_requests(tmp_path):
            (checkpoints.get_path(tmp_path, 1) / "config.json").write_text("{}")
            for target, values in ((0, {}), (1, {}), (2, {"optimizer.policy_lr": "fast"})):
                change_requests.request_change(tmp_path, values, "Ada", "", target)
        return False

    assert play(config, tmp_path, stop).reason == "completed"
    refusals = [e.refused for e in events(tmp_path, SettingsChanged)]
    assert refusals[0] == "no checkpoint of iteration 0 is kept (kept: 1, 2)"
    assert "checkpoint 1 is damaged (config.json" in refusals[1]
    assert "optimizer.policy_lr: must be a number, not 'fast'" in refusals[2]
    assert not events(tmp_path, Rewound)
    assert len(events(tmp_path, RunStarted)) == 1


def test_rewinds_by_hand_do_not_use_up_those_after_a_collapse(pocket_folder, tmp_path):
    config = rewinding(pocket_folder, rewinds={"2": 1}, evaluation={"prompts": 0})
    end = play_scripted(config, tmp_path, at=(3,), uneasy=(2,), limit=1)
    assert [(e.number, e.from_iteration, e.to_iteration) for e in events(tmp_path, Rewound)] == [(1, 2, 1), (2, 3, 1)]
    assert end.reason == "echo_trap"
    rates = [e.config["optimizer"]["policy_lr"] for e in events(tmp_path, RunStarted)]
    assert rates == [1e-4, 1e-4, 5e-5], "only a collapse makes the changes of echo_trap.rewind_changes"


def test_values_that_were_chosen_after_a_collapse_are_not_changed_for_it():
    plan = {"optimizer.policy_lr@5": 4e-5, "optimizer.policy_lr@3/1": 2e-5}
    config = RunConfig(changes=plan, echo_trap={"rewind_changes": {"optimizer.policy_lr": "*0.5"}})

    def rate(iteration, rewinds, by_hand=()):
        return config.settings_at(iteration, rewinds, by_hand).optimizer.policy_lr

    assert [rate(2, 0), rate(6, 0), rate(2, 1), rate(2, 1, [1])] == [1e-4, 4e-5, 5e-5, 1e-4]
    assert [rate(6, 1), rate(6, 2), rate(6, 2, [2])] == [2e-5, 1e-5, 2e-5]
    assert len({config.settings_at(6, 2, by_hand).seed for by_hand in ([], [1], [1, 2])}) == 1
    assert RunConfig().digest() == RunConfig(rewinds={}).digest() != RunConfig(rewinds={"5": 3}).digest()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"rewinds": {"50": 60}}, "leads forward"),
        ({"rewinds": {"fifty": 40}}, "is no rewind: 50=40 goes back"),
        ({"rewinds": {"50": "start"}}, "is no rewind"),
        ({"rewinds": {"50": 40}, "kind": "sft"}, "rewinds apply to iterations of StarPO"),
        (
            {
                "rewinds": {"50": 40},
                "rollout": {"max_staleness": 1},
                "cluster": {"rollout_actors": 1},
                "algorithm": {"tis_cap": 2},
            },
            "rewinds need rollout.max_staleness 0",
        ),
    ],
)
def test_impossible_plans_are_errors_of_the_configuration(settings, problem):
    with pytest.raises(ValueError, match=problem):
        RunConfig.model_validate(settings)
