"""Echo meter: what it counts as the same thought, what it draws, and who may see it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.page_requests import Visitors, assert_private, play, who
from trainer.metrics.charts import Band, stream
from webapp.explorer.echo_meter import MAX_BANDS, EchoMeter, echo_meter
from webapp.runs.models import Run
from webapp.trajectories.models import Turn

__all__ = ["who"]


def write_thoughts(run: Run, iteration: int, thoughts: list[str]) -> None:
    """Replace the first thoughts of an iteration's attempts, one after the other, again from the first."""
    turns = Turn.objects.filter(trajectory__run=run, trajectory__group__iteration=iteration, number=0)
    for place, turn in enumerate(turns.filter(trajectory__group__split="train").order_by("pk")):
        turn.event["thought"] = thoughts[place % len(thoughts)]
        turn.save(update_fields=["event"])


@pytest.fixture
def collapsing(run: Run) -> Run:
    """Two iterations: thoughts that all differ, then one template with other numbers."""
    play(run, finished=2)
    attempts = run.trajectories.filter(group__iteration=1, group__split="train").count()
    write_thoughts(run, 1, [f"Idea {chr(97 + place)} {'x' * place}" for place in range(attempts)])
    write_thoughts(run, 2, ["I am at 1,2.  Down.", "i am at 33,4. down."])
    return run


def test_thoughts_that_differ_in_numbers_only_are_an_echo(collapsing: Run) -> None:
    meter = echo_meter(collapsing.pk)
    assert isinstance(meter, EchoMeter)
    first, last = meter.first, meter.newest
    assert (first.commonest[1], round(first.varied)) == (1, first.attempts)
    assert last.commonest == ("i am at #,#. down.", last.attempts)
    assert last.varied == pytest.approx(1)
    assert meter.bands[0].shares == [0.0, 1.0]
    assert f"{last.attempts} of {last.attempts} attempts of iteration 2 thought" == last.sentence
    assert meter.variety == f"As varied as 1 equally common thought ({first.attempts} in iteration 1)."


def test_the_meter_is_as_private_as_its_run(collapsing: Run, who: Visitors) -> None:
    for address in (f"/runs/{collapsing.slug}/echo", f"/runs/{collapsing.slug}/echo.svg"):
        assert_private(address, who)
        assert "i am at #,#. down." in who.viewer.get(address).content.decode()


def test_a_thought_cannot_leave_the_picture(collapsing: Run, who: Visitors) -> None:
    write_thoughts(collapsing, 2, ["</text><script>alert(1)</script>"])
    for address in (f"/runs/{collapsing.slug}/echo", f"/runs/{collapsing.slug}/echo.svg"):
        assert "<script>" not in who.owner.get(address).content.decode()


def test_a_run_without_thoughts_has_no_meter(run: Run, who: Visitors) -> None:
    assert echo_meter(run.pk) is None
    assert who.owner.get(f"/runs/{run.slug}/echo").status_code == 204
    assert who.owner.get(f"/runs/{run.slug}/echo.svg").status_code == 404
    play(run, finished=1)
    write_thoughts(run, 1, [""])
    assert echo_meter(run.pk) is None


@given(st.lists(st.lists(st.floats(0, 0.2), min_size=3, max_size=3), max_size=MAX_BANDS))
def test_bands_are_stacked_within_the_box(shares: list[list[float]]) -> None:
    drawn = stream([Band(str(number), own) for number, own in enumerate(shares)], (100, 50))
    pairs = [pair for part in drawn.split('points="')[1:] for pair in part.split('"')[0].split()]
    assert all(0 <= float(x) <= 100 and 0 <= float(y) <= 50 for x, y in (pair.split(",") for pair in pairs))
