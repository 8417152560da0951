"""Open requests of a rollout pool, without actors."""

from trainer.cluster.ledger import EventLedger
from trainer.cluster.pool_state import OpenRequest, PoolUsage
from trainer.cluster.rollout_actor import PlayReport
from trainer.config.run import RunConfig
from trainer.journal.events import GroupStarted, TrajectoryFinished
from trainer.rollout.environment_mix import get_shares, train_plans
from trainer.rollout.runner import RolloutRequest
from trainer.rollout.sessions import split_sessions
from trainer.rollout.trajectory import Trajectory


def opened(groups=4, groups_per_session=2):
    config = RunConfig.model_validate({"rollout": {"groups": groups, "group_size": 2}})
    request = RolloutRequest(train_plans(config, get_shares(config), 1), 1, split="train", temperature=1.0)
    passed = []
    ledger = EventLedger(lambda *events: passed.extend(events), lambda message: None)
    sessions = split_sessions(request, groups_per_session)
    return OpenRequest(request, sessions, ledger, lambda done, tokens: None), passed


def started(plan):
    return GroupStarted.model_construct(group=plan.group, members=list(plan.members))


def test_begun_groups_of_a_lost_session_get_new_numbers_and_the_others_keep_theirs():
    request, passed = opened()
    request.ledger.receive([started(request.sessions[1].plans[0])])
    request.renumber(1)
    assert [plan.group for plan in request.sessions[1].plans] == [4, 3]
    assert [plan.group for plan in request.request.plans] == [0, 1, 4, 3]
    ends = [event for event in passed if isinstance(event, TrajectoryFinished)]
    assert [(event.trajectory, event.end) for event in ends] == [
        ("00001-g02-n00", "interrupted"),
        ("00001-g02-n01", "interrupted"),
    ]
    request.ledger.receive([started(request.sessions[1].plans[0])])
    request.renumber(1)
    assert [plan.group for plan in request.sessions[1].plans] == [5, 3]


def test_trajectories_are_in_the_order_of_the_plans_whatever_their_numbers():
    request, _ = opened()
    request.ledger.receive([started(request.sessions[0].plans[1])])
    request.renumber(0)
    for number, session in enumerate(request.sessions):
        request.parts[number] = [Trajectory(id=name, group=0, member=0) for name in _names(session)]
    assert request.played
    assert [one.id for one in request.trajectories()] == _names(request.request)


def _names(request):
    return [name for plan in request.plans for name in plan.members]


def test_usage_is_the_share_of_busy_seconds():
    usage = PoolUsage()
    assert usage.metrics(2) == {}, "nothing was played"
    usage.since -= 10
    usage.add(PlayReport(seconds=5.0, tokens=100), 0)
    metrics = usage.metrics(2)
    assert 0.7 < metrics["cluster/rollout_idle_share"] < 0.8
    assert metrics["cluster/tokens_per_second"] == 20
    assert "cluster/slowest_actor" not in metrics, "there is no other actor"
    for actor, tokens in enumerate((100, 400, 100, 20), start=1):
        usage.add(PlayReport(seconds=5.0, tokens=tokens), actor)
    assert usage.metrics(5)["cluster/slowest_actor"] == 0.2
