"""Charts of a study, and their picture."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.studies.played import play_until, runs_of
from webapp.runs.models import MetricPoint
from webapp.studies.actions import do_create_study
from webapp.studies.arm_charts import build_charts, picture
from webapp.studies.study_outcomes import load_members
from webapp.studies.study_plan import planned
from webapp.studies.study_results import load_results
from webapp.studies.study_spec import CatalogueSpec


def test_charts_and_picture_of_a_study(people: People, tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    spec = CatalogueSpec(study="figure-10", scale="smoke", seeds=2)
    study = do_create_study(people.team, people.owner, spec, planned(spec))
    for number, run in enumerate(runs_of(study)):
        play_until(run, [number / 20, number / 15])
    first = runs_of(study)[0]
    name = f"eval/{first.environment}/success"
    MetricPoint.objects.create(run=first, name=name, iteration=0, value=0.5, tokens=0, seconds=0.0)
    results = load_results(study, load_members(study))
    evaluated, *charts = build_charts(results)
    assert evaluated.title == "Sokoban: success on the evaluation puzzles"
    assert [chart.title for chart in charts] == [
        "Sokoban: success while training",
        "FrozenLake: success while training",
    ]
    last = [line.points[-1][0] for line in charts[0].lines]
    assert last == [2, 4, 10, 20], "an iteration of Online-k corresponds to k of the others"
    assert all(line.band for line in charts[0].lines)
    text = picture(study.title, charts)
    assert len(re.findall("<polygon", text)) == 8
    assert "nan" not in text
