"""Actors that the settings of a cluster ask for."""

from __future__ import annotations

import re

import pytest

from trainer.config.resources import ActorRequest, ClusterConfig
from trainer.loops.stages.cluster_setup import placement_as_text


def test_learners_come_before_rollout_actors_and_kinds_without_any_are_left_out() -> None:
    cluster = ClusterConfig(rollout_actors=3, learners=2, resources={"rollout_cpus": 0.5, "learner_gpus": 2})
    assert cluster.actors("train", "auto") == (ActorRequest(2, 1.0, 2), ActorRequest(3, 0.5, None))
    assert cluster.actors("train", "cpu") == (ActorRequest(2, 1.0, 2), ActorRequest(3, 0.5, 0.0))
    assert cluster.actors("evaluate", "auto") == (ActorRequest(3, 0.5, None),)
    assert ClusterConfig().actors("train", "auto") == ()


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        ({"rollout_cpus": 0}, "rollout_cpus must be above 0 and at most 1024"),
        ({"rollout_cpus": float("nan")}, "rollout_cpus must be above 0 and at most 1024"),
        ({"learner_cpus": 1025}, "learner_cpus must be above 0 and at most 1024"),
        ({"rollout_gpus": -0.5}, "rollout_gpus must be at least 0 and at most 64"),
        ({"learner_gpus": 65}, "learner_gpus must be at least 0 and at most 64"),
        ({"cpus": 2}, "may name rollout_cpus, rollout_gpus, learner_cpus, learner_gpus, not 'cpus'"),
    ],
)
def test_unusable_resources_of_an_actor_are_refused(resources: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        ClusterConfig(resources=resources)


def test_the_driver_computes_unless_actors_do_all_of_it() -> None:
    assert ClusterConfig().driver_computes("train")
    assert ClusterConfig(rollout_actors=1).driver_computes("train")
    assert ClusterConfig(learners=1).driver_computes("train")
    assert not ClusterConfig(rollout_actors=1, learners=1).driver_computes("train")
    assert not ClusterConfig(rollout_actors=1).driver_computes("evaluate")


def test_the_placement_names_each_node_once_for_each_kind_of_actor() -> None:
    assert placement_as_text(["a", "a"], ["b", "a", "b", "b", "b"]) == (
        "learners 1-2 on a; rollout actors 1, 3-5 on b; rollout actor 2 on a"
    )
    assert placement_as_text([], ["a"]) == "rollout actor 1 on a"
