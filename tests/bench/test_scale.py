"""Parts of the scaling benchmark: the simulated engine and its latencies, shares of linear scaling."""

from __future__ import annotations

import pytest

pytest.importorskip("ray")

from bench.scale import rollout_scaling
from bench.scale.rollout_scaling import ScalingResult
from bench.scale.simulated_engine import SESSIONS, SimulatedSampler, recorded
from trainer.engines.sampler import SamplingParams


def test_latencies_have_the_long_tail_of_the_recorded_engine() -> None:
    seconds = recorded()
    assert seconds == sorted(seconds)
    assert len(seconds) == 1000
    assert seconds[990] > 4 * seconds[500]


def test_rows_answer_independently_and_sessions_repeat() -> None:
    sampler = SimulatedSampler([1, 2, 3], scale=1e-5)

    def order() -> list[int]:
        session = sampler.session([0] * 4, SamplingParams())
        rows: list[int] = []
        for row, response in session.generate({row: [7] for row in range(4)}):
            assert response.ids == [1, 2, 3]
            rows.append(row)
            if rows.count(row) < 3:
                session.append(row, [8])
        assert sorted(rows) == sorted([0, 1, 2, 3] * 3)
        return rows

    first = [order() for _ in range(SESSIONS)]
    assert len({tuple(rows) for rows in first}) > 1, "latencies differ between sessions"


def test_shares_are_relative_to_one_actor() -> None:
    results = [ScalingResult(1, 100.0, 2.0, 1.0, 50.0), ScalingResult(4, 380.0, 2.0, 1.0, 190.0)]
    assert rollout_scaling.relative(results[1], results[0]) == pytest.approx(0.95)
    text = rollout_scaling.table(results)
    assert "| 4 | 380 | 95% |" in text
    assert "carries 30,000 trajectories per minute" in text
