"""Condition of a run: the same word in header, tab, list, comparison and API, and the way out of a collapse."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.page_requests import Visitors, who
from trainer.config.files import with_values
from trainer.config.run import RunConfig
from webapp.live.snapshot import heading
from webapp.runs.launch.recovery import last_healthy_checkpoint, recovery
from webapp.runs.models import Run

__all__ = ["who"]


def alarms(run: Run, *states: tuple[int, str]) -> Run:
    """The run with these alarms, in their order, after iteration 40."""
    for seq, (iteration, state) in enumerate(states, 1):
        run.alarms.create(seq=seq, iteration=iteration, state=state, message="It falls.", time=timezone.now())
    run.iteration, run.iterations = 40, 60
    run.save()
    return run


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ((), None),
        (((9, "healthy"),), None),
        (((9, "watch"),), "At risk since iteration 9"),
        (((9, "watch"), (14, "trapped")), "Trapped since iteration 14"),
        (((9, "watch"), (14, "trapped"), (30, "healthy")), None),
    ],
)
def test_every_place_states_the_same_condition(
    run: Run, who: Visitors, states: Sequence[tuple[int, str]], text: str | None
) -> None:
    alarms(run, *states)
    other = Run.objects.get(pk=run.pk)
    [listed] = Run.objects.with_alarm().filter(pk=run.pk)
    assert [each.condition and each.condition.text for each in (other, listed)] == [text, text]
    client: Client = who.owner
    pages = [
        client.get(address).content.decode()
        for address in ("/", f"/compare?runs={run.slug}", f"/runs/{run.slug}/curves")
    ]
    label = text and text.split(" since")[0]
    assert [f'data-condition="{states[-1][1] if label else ""}"' in page for page in pages] == [bool(label)] * 2 + [
        True
    ]
    answer = client.get(f"/api/runs/{run.slug}").json()
    assert answer["condition"] == (label and {"state": states[-1][1], "since": states[-1][0]})
    title = pages[2].split("<title>")[1].split("</title>")[0]
    assert title.startswith(f"⚠ {label} · ") is bool(label)
    assert ("img/icon_" in pages[2].split('rel="icon" href="')[1].split('"')[0]) is bool(label)
    alarm = heading(run)["alarm"]
    assert (alarm and alarm["state"]) == (states[-1][1] if states else None)


def test_the_way_out_of_a_collapse_starts_at_the_last_healthy_checkpoint(run: Run, who: Visitors) -> None:
    plans = {"changes": {"optimizer.policy_lr@5": 5e-5, "optimizer.policy_lr@25": 1e-5}, "rewinds": {"50": "40"}}
    values = plans | {"algorithm.group_filter": "none"}
    run.config = with_values(RunConfig(iterations=60), values).model_dump(mode="json")
    run.config["echo_trap"]["window"] = 10  # a setting of earlier versions
    alarms(run, (9, "watch"), (12, "healthy"), (25, "watch"), (30, "trapped"))
    for iteration in (10, 20, 30, 40):
        run.checkpoints.create(iteration=iteration, bytes=1, time=timezone.now())
    found = recovery(run, last_healthy_checkpoint(run))
    assert found is not None
    assert (found.label, found.config.policy.model) == (
        "Continue from iteration 20 with StarPO-S",
        f"run:{run.slug}@20",
    )
    assert (found.config.iterations, found.config.algorithm.group_filter_keep) == (40, 0.25)
    assert (found.config.optimizer.policy_lr, found.config.changes, found.config.rewinds) == (5e-5, {}, {})
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert "Continue from iteration 20 with StarPO-S" in page
    assert page.index('data-trap="trapped"') < page.index("data-stage")  # above the stage, not below it
    form = who.owner.get(f"/runs/new?clone={run.slug}&vary=recover").content.decode()
    assert f"run:{run.slug}@20" in form


def test_without_a_healthy_checkpoint_the_clone_starts_anew(run: Run, who: Visitors) -> None:
    alarms(run, (5, "trapped"))
    run.checkpoints.create(iteration=10, bytes=1, time=timezone.now())
    assert last_healthy_checkpoint(run) is None
    assert (
        "No checkpoint from before the collapse is stored"
        in who.owner.get(f"/runs/new?clone={run.slug}&vary=recover").content.decode()
    )
