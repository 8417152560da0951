"""Means over the runs of an arm, and their bands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainer.studies.arm_curves import BandPoint, band, charts
from trainer.studies.catalogue import find
from trainer.studies.outcomes import Outcome
from trainer.studies.results import RunRow, StudyResults
from trainer.studies.study import Arm


def line(**points: float) -> list[tuple[float, float]]:
    """Points such as at3=0.5."""
    return [(float(name[2:]), value) for name, value in points.items()]


def test_the_mean_counts_the_runs_that_got_there() -> None:
    assert band([line(at1=0.0, at2=1.0, at3=2.0), line(at1=2.0, at2=3.0)]) == [
        BandPoint(1, 1.0, pytest.approx(2**0.5), 2),
        BandPoint(2, 2.0, pytest.approx(2**0.5), 2),
        BandPoint(3, 2.0, 0.0, 1),
    ]


def test_a_run_is_interpolated_between_its_points_and_nowhere_else() -> None:
    assert [
        (point.iteration, point.mean, point.runs) for point in band([line(at2=0.0, at6=4.0), line(at1=1.0, at4=2.0)])
    ] == [
        (1, 1.0, 1),
        (2, pytest.approx((0.0 + 4 / 3) / 2), 2),
        (4, 2.0, 2),
        (6, 4.0, 1),
    ]
    assert band([[], line(at1=float("nan"))]) == []


def results(*arms: Arm, seeds: int = 2) -> StudyResults:
    study = replace(find("figure-10"), environments=("sokoban", "frozen_lake"), arms=arms, curves=("entropy/mean",))
    suites = {"sokoban": "Sokoban", "frozen_lake": "FrozenLake"}
    rows = [
        RunRow(Outcome(environment, arm.name, seed, suite=suite))
        for environment, suite in suites.items()
        for arm in arms
        for seed in range(seeds)
    ]
    return StudyResults(study, rows, {})


def test_charts_are_those_in_which_an_arm_has_values() -> None:
    """Evaluations of Sokoban, as of an arm that imitates and plays nothing while it trains; entropy of both."""
    both = results(Arm("a", "A", "starpo"), Arm("b", "B", "starpo"))

    def line_of(row: RunRow, metric: str) -> list[tuple[float, float]]:
        known = metric == "eval/Sokoban/success" or (metric == "entropy/mean" and row.outcome.arm == "b")
        return [(1.0, row.outcome.seed), (2.0, 1.0)] if known else []

    found = charts(both, line_of)
    assert [(chart.title, [curve.arm.arm.name for curve in chart.curves]) for chart in found] == [
        ("Sokoban: success on the evaluation puzzles", ["a", "b"]),
        ("Sokoban: entropy", ["b"]),
        ("FrozenLake: entropy", ["b"]),
    ]
    assert [point.mean for point in found[0].curves[0].points] == [0.5, 1.0]


def test_bands_of_shares_stay_within_their_range_and_iterations_are_stretched() -> None:
    stretched = results(Arm("a", "A", "starpo", stretch=5))
    (chart, *_) = charts(stretched, lambda row, metric: [(1.0, 0.1 * row.outcome.seed), (2.0, 1.0)])
    (curve,) = chart.curves
    drawn = curve.series("share")
    assert [at for at, _ in drawn.points] == [5, 10]
    assert [(low, high) for _, low, high in drawn.band] == [(0.0, pytest.approx(0.05 + 0.1 / 2**0.5)), (1.0, 1.0)]
    assert curve.series("nats").band[0][1] < 0
    (chart, *_) = charts(results(Arm("a", "A", "starpo"), seeds=1), lambda row, metric: [(1.0, 0.5)])
    assert chart.curves[0].series("share").band == [], "a single run has no spread"
