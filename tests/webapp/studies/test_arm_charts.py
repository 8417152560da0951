"""Means over runs with their bands, and their drawings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.studies.played import play_until, runs_of
from webapp.runs.curves import Point
from webapp.runs.models import MetricPoint
from webapp.studies.actions import do_create_study
from webapp.studies.arm_charts import BandPoint, band, charts_of, picture
from webapp.studies.study_outcomes import members_of
from webapp.studies.study_plan import planned
from webapp.studies.study_results import results_of
from webapp.studies.study_spec import CatalogueSpec


def line(**points: float) -> list[Point]:
    """Points such as at3=0.5."""
    return [Point(int(name[2:]), int(name[2:]), value) for name, value in points.items()]


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


def test_charts_and_picture_of_a_study(people: People, tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    spec = CatalogueSpec(study="figure-10", scale="smoke", seeds=2)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    for number, run in enumerate(runs_of(study)):
        play_until(run, [number / 20, number / 15])
    first = runs_of(study)[0]
    name = f"eval/{first.environment}/success"
    MetricPoint.objects.create(run=first, name=name, iteration=0, value=0.5, tokens=0, seconds=0.0)
    results = results_of(study, members_of(study))
    evaluated, *charts = charts_of(results)
    assert evaluated.title == "Sokoban: success on the fixed prompts"
    assert [chart.title for chart in charts] == [
        "Sokoban: success while training",
        "FrozenLake: success while training",
    ]
    last = [line.points[-1][0] for line in charts[0].lines]
    assert last == [2, 4, 10, 20], "an iteration of Online-k corresponds to k of the others"
    assert all(line.band for line in charts[0].lines)
    text = picture(results, charts)
    assert len(re.findall("<polygon", text)) == 8
    assert "nan" not in text
