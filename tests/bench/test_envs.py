"""Benchmark of the environments: every kind of work is measured, with and without a peer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench import envs as bench_envs


def test_every_kind_of_work_has_a_rate_and_a_ratio_to_its_peers() -> None:
    work = bench_envs.comparisons(None)
    for comparison in work:
        comparison.play(0.001)
        comparison.play(0.001)
    assert all(comparison.figure() > 0 for comparison in work)
    (lake,) = (comparison for comparison in work if comparison.work == "FrozenLake 4×4: in a rollout")
    (peer,) = lake.peers
    assert lake.ratio(peer) == pytest.approx(lake.rates[bench_envs.OURS][1] / lake.rates[peer][1])
    assert f"| {peer} |" in lake.rows()[0]
    assert work[0].rows()[0].endswith("| | | |")


def test_an_action_in_a_rollout_counts_until_the_episode_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes: list[int] = []

    def counted(seconds: float, episode: Callable[[], tuple[int, float]]) -> float:
        episodes.extend(episode()[0] for _ in range(5))
        return 1.0

    monkeypatch.setattr(bench_envs, "counted", counted)
    bench_envs.rollout_steps("FrozenLake")(1.0)
    assert all(0 < done <= bench_envs.EPISODE for done in episodes)
    assert len(set(episodes)) > 1
