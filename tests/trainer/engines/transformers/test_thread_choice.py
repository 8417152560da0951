"""Choice of the number of CPU threads at the start of a run."""

from __future__ import annotations

import pytest
import torch

from trainer.engines.transformers import thread_choice
from trainer.loops.stages.checkpoints import Progress
from trainer.loops.stages.policy_setup import _set_threads
from trainer.policy.load import Policy


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ({1: 1.0, 2: 0.6}, 2),
        ({1: 1.0, 2: 0.95}, 1),
        ({1: 1.0, 2: 7.0}, 1),
        ({1: 1.0, 3: 0.5, 6: 0.3}, 6),
        ({1: 1.0, 2: 0.97, 4: 0.5, 8: 0.49}, 4),
    ],
)
def test_more_threads_are_chosen_only_where_they_pay(times: dict[int, float], chosen: int) -> None:
    assert thread_choice.fastest(max(times), times.__getitem__) == chosen


def test_the_shortest_of_interleaved_measurements_counts() -> None:
    measured: list[int] = []

    def seconds(threads: int) -> float:
        measured.append(threads)
        disturbed = len(measured) < 3  # another process was busy during the first round
        return 5.0 if disturbed else {1: 1.0, 2: 0.6}[threads]

    assert thread_choice.fastest(2, seconds) == 2
    assert measured == [1, 2] * thread_choice.ROUNDS


def test_a_real_model_is_measured_once_and_later_attempts_keep_the_number(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_choice, "MAX_THREADED_BYTES", 0)
    tried: list[int] = []
    measure = thread_choice._seconds

    def recorded(model: object, threads: int) -> float:
        tried.append(threads)
        return measure(policy.model, threads)

    monkeypatch.setattr(thread_choice, "_seconds", recorded)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        progress = Progress()
        _set_threads(progress, policy)
        assert progress.threads == torch.get_num_threads()
        assert set(tried) == {1, 2}
        tried.clear()
        resumed = Progress(threads=2)
        _set_threads(resumed, policy)
        assert (torch.get_num_threads(), tried) == (2, [])
    finally:
        torch.set_num_threads(before)
