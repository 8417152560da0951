"""Groups of runs that differ in their seed, and suggested comparisons."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webapp.conftest import People
from tests.webapp.explorer.test_compare import another
from tests.webapp.explorer.test_comparison_headline import evaluated
from tests.webapp.page_requests import Visitors, who
from webapp.explorer.run_groups import group_key, suggestions
from webapp.runs.models import Run

__all__ = ["who"]
pytestmark = pytest.mark.django_db


def changed(run: Run, **settings: Any) -> Run:
    run.config = run.config | settings
    run.save(update_fields=["config"])
    return run


def test_runs_that_differ_in_name_and_seed_are_one_group(people: People, run: Run) -> None:
    other = changed(another(people, run), seed=7, name="Another name", trackers=["trackio"])
    assert group_key(run) == group_key(other)
    longer = changed(another(people, run), iterations=run.config["iterations"] + 1)
    assert group_key(run) != group_key(longer)


def test_repetitions_other_algorithms_and_the_latest_two_are_suggested(people: People, run: Run) -> None:
    second = changed(another(people, run), seed=7)
    filtered = changed(
        another(people, run), algorithm=run.config["algorithm"] | {"group_filter": "std", "group_filter_keep": 0.25}
    )
    found = suggestions([filtered, second, run], 8)
    assert [[one.pk for one in each.runs] for each in found] == [[run.pk, second.pk], [second.pk, filtered.pk]]
    assert found[0].reason == "Same configuration, other seeds: how much is luck?"
    assert "other algorithm" in found[1].reason, "which are the latest two as well"
    assert [each.reason for each in suggestions([filtered, second, run], 8, of=run)] == [found[0].reason]
    assert suggestions([run], 8) == []


def test_the_page_links_to_suggestions_and_offers_means_over_seeds(people: People, run: Run, who: Visitors) -> None:
    second = changed(another(people, run), seed=7)
    suggested = f"/compare?runs={run.slug},{second.slug}"
    assert suggested not in who.viewer.get("/compare").content.decode(), "there are no results to compare yet"
    evaluated(run, 50), evaluated(second, 60)
    page = who.viewer.get("/compare").content.decode()
    assert suggested in page
    assert "data-average" not in page
    run.metrics.create(name="reward/mean", iteration=1, value=1, tokens=1, seconds=1)
    assert "data-average" in who.viewer.get(f"/compare?runs={run.slug},{second.slug}").content.decode()
    changed(second, iterations=run.config["iterations"] + 1)
    assert "data-average" not in who.viewer.get(f"/compare?runs={run.slug},{second.slug}").content.decode()
