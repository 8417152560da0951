"""Actors that would not fit their node's memory are refused before any of them starts."""

import pytest

from trainer.cluster.node_memory import check_nodes
from trainer.config.files import load_preset, with_overrides
from trainer.memory.estimate import GB, estimate_memory
from trainer.memory.oom import OutOfMemoryError
from trainer.memory.preflight import PreflightResult
from trainer.policy.shapes import ModelShape, named_shape

HALF_BILLION = named_shape("Qwen2.5-0.5B")
assert isinstance(HALF_BILLION, ModelShape)


def config(*more):
    settings = ["cluster.rollout_actors=4", "cluster.learners=1", "policy.device=cpu", "memory.preflight=refuse"]
    return with_overrides(load_preset("sokoban-starpo-paper"), [*settings, *more])


def peak(settings, role, processes, rows=None):
    return estimate_memory(settings, HALF_BILLION, gpu=False, rows=rows, processes=processes, role=role).peak


def test_an_actor_needs_what_it_does_and_no_more():
    settings = config()
    both = peak(settings, "all", 1)
    assert peak(settings, "play", 1) < both
    assert peak(settings, "learn", 1) < both
    assert peak(settings, "play", 4) < peak(settings, "play", 1), "actors share the trajectories"
    names = {part.name for part in estimate_memory(settings, HALF_BILLION, gpu=False, role="play").parts}
    assert not any("gradients" in name or "optimiser" in name for name in names)


def test_actors_that_fit_start_without_a_word():
    result = check_nodes(config(), HALF_BILLION, {"a": 1}, {"a": 4}, {"a": (400 * GB, 512 * GB)})
    assert (result.rows, result.warning) == (None, "")


def test_a_learner_that_does_not_fit_its_node_is_refused_with_the_node():
    with pytest.raises(OutOfMemoryError, match=r"a learner does not fit: .* free on node small"):
        check_nodes(config(), HALF_BILLION, {"small": 1}, {}, {"small": (2 * GB, 2 * GB)})


def test_what_learners_leave_limits_the_trajectories_of_rollout_actors():
    settings = config()
    learner, fixed = peak(settings, "learn", 1), peak(settings, "play", 4, rows=1)
    room = learner + int(2 * fixed / 0.9)
    result = check_nodes(settings, HALF_BILLION, {"a": 1}, {"a": 2, "b": 2}, {"a": (room, room), "b": (room, room)})
    assert result.rows is not None
    assert 1 <= result.rows < settings.rollout.trajectories // 4
    assert "at a time fit into memory" in result.warning
    with pytest.raises(OutOfMemoryError, match=r"a rollout actor does not fit: .* node a for each of its 2 rollout"):
        check_nodes(settings, HALF_BILLION, {"a": 1}, {"a": 2}, {"a": (learner + fixed, room)})


def test_the_check_can_warn_only_or_be_skipped():
    small = {"small": (2 * GB, 2 * GB)}
    warned = check_nodes(config("memory.preflight=warn"), HALF_BILLION, {"small": 1}, {}, small)
    assert warned.warning.startswith("A learner does not fit")
    skipped = config("memory.preflight=none")
    assert check_nodes(skipped, HALF_BILLION, {"small": 1}, {}, small) == PreflightResult()
    assert check_nodes(config(), None, {"small": 1}, {}, small).rows is None
