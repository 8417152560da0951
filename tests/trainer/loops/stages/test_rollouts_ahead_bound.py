"""Which rollouts are requested ahead of their iteration, how stale they become, and what settings that needs."""

from types import SimpleNamespace

import pytest

from trainer.cluster.errors import LearnerLostError
from trainer.config.files import validation_errors
from trainer.config.run import RunConfig
from trainer.loops.stages.rollouts_ahead import RolloutsAhead, staleness
from trainer.rollout.environment_mix import get_shares, renumbered, train_plans
from trainer.rollout.runner import Interrupted
from trainer.rollout.trajectory import Trajectory


class RecordingPool:
    """Records its calls in order."""

    def __init__(self):
        self.calls = []

    def submit(self, request):
        self.calls.append(f"submit {request.iteration}")

    def collect(self, iteration, progress):
        self.calls.append(f"collect {iteration}")
        return []

    def pump(self):
        self.calls.append("pump")

    def abandon(self):
        self.calls.append("abandon")


def settings(staleness_bound=1, **sections):
    data = {
        "iterations": 4,
        "rollout": {"max_staleness": staleness_bound},
        "cluster": {"rollout_actors": 1},
        "algorithm": {"tis_cap": 2},
    }
    return RunConfig.model_validate(data | sections)


def rollouts(bound, iteration=0):
    session = SimpleNamespace(config=settings(bound), progress=SimpleNamespace(iteration=iteration))
    return RolloutsAhead(session, RecordingPool()), session


def play(ahead, session, iterations):
    for iteration in iterations:
        ahead.take(iteration, lambda done, tokens: None)
        session.progress.iteration = iteration


def test_the_next_iteration_is_requested_once_the_last_one_is_played():
    ahead, session = rollouts(1)
    play(ahead, session, [1, 2, 3, 4])
    assert ahead.pool.calls == [
        *("submit 1", "collect 1", "submit 2"),
        *("collect 2", "submit 3"),
        *("collect 3", "submit 4"),
        "collect 4",
    ], "nothing beyond the last iteration"


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_no_request_is_more_updates_behind_than_allowed(bound):
    ahead, session = rollouts(bound)
    play(ahead, session, [1, 2, 3, 4])
    updates = 0
    for call in ahead.pool.calls:
        name, iteration = call.split()
        if name == "collect":
            updates = int(iteration) - 1  # the update of this iteration comes after it
        else:
            assert (int(iteration) - 1) - updates <= bound


def test_a_resumed_run_begins_after_its_checkpoint():
    ahead, session = rollouts(2, iteration=2)
    play(ahead, session, [3])
    assert ahead.pool.calls == ["submit 3", "collect 3", "submit 4"]


def test_reports_of_an_update_keep_the_pool_working():
    ahead, _ = rollouts(1)
    reports = []
    ahead.pumping(reports.append)("report")
    assert (ahead.pool.calls, reports) == (["pump"], ["report"])


@pytest.mark.parametrize("error", [Interrupted, LearnerLostError])
def test_what_is_played_ahead_is_closed_where_the_run_continues_later(error):
    ahead, _ = rollouts(1)
    with pytest.raises(error), ahead.until_done():
        raise error
    assert ahead.pool.calls == ["abandon"]


def test_an_error_of_the_run_itself_is_not_delayed_by_its_rollouts():
    ahead, _ = rollouts(1)
    with pytest.raises(KeyError), ahead.until_done():
        raise KeyError
    assert ahead.pool.calls == []


def test_staleness_counts_tokens():
    trajectory = Trajectory(id="t", group=0, member=0, turn_of=[-1, 0, 0, 0, -1, 1], versions=[3, 4])
    assert staleness([trajectory], version=5) == {"rollout/staleness": 7 / 4, "rollout/staleness_max": 2.0}
    assert staleness([], version=5) == {}


def test_a_group_under_another_number_begins_in_the_same_state_with_the_same_seeds():
    config = settings()
    plan = train_plans(config, get_shares(config), 3)[1]
    again = renumbered(plan, 3, 40)
    assert again.members[0] == "00003-g40-n00"
    assert len(again.members) == len(plan.members)
    assert (again.seed, again.sampling_seeds) == (plan.seed, plan.sampling_seeds)


@pytest.mark.parametrize(
    "changes, advice",
    [
        ({"cluster": {"rollout_actors": 0}}, "set cluster.rollout_actors to at least 1"),
        ({"algorithm": {"tis_cap": None}}, "Set it, for example to 2"),
        ({"algorithm": {"tis_cap": 2, "dynamic_sampling_rounds": 2}}, "set algorithm.dynamic_sampling_rounds to 1"),
    ],
)
def test_staleness_without_what_it_needs_is_refused_with_advice(changes, advice):
    with pytest.raises(ValueError) as refusal:
        settings(**changes)
    assert advice in validation_errors(refusal.value)[0][1]
