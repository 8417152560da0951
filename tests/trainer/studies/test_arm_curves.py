"""Means over the runs of an arm, and their bands."""

from __future__ import annotations

import pytest

from trainer.studies.arm_curves import BandPoint, band, series


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


def test_bands_of_shares_stay_within_their_range_and_iterations_are_stretched() -> None:
    points = band([line(at1=0.0, at2=1.0), line(at1=0.1, at2=1.0)], stretch=5)
    drawn = series("arm", 1, points, "share")
    assert [at for at, _ in drawn.points] == [5, 10]
    assert [(low, high) for _, low, high in drawn.band] == [(0.0, pytest.approx(0.05 + 0.1 / 2**0.5)), (1.0, 1.0)]
    assert series("arm", 1, points, "nats").band[0][1] < 0
    assert series("arm", 1, band([line(at1=0.5)]), "share").band == [], "a single run has no spread"
