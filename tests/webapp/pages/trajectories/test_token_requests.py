"""Panel of attempts without recorded tokens: who may have them computed, what it says meanwhile, and why not."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.utils import timezone

from tests.webapp.page_requests import Visitors, assert_private, play, who
from trainer.journal import token_arrays
from trainer.journal.token_arrays import Segment
from webapp.runs.models import Checkpoint, Run, Worker
from webapp.trajectories.models import Group, TokenArrays, TokenComputation, Trajectory

__all__ = ["who"]


@pytest.fixture(scope="module")
def played_run(module_run: Run) -> Run:
    run = play(module_run, finished=2)
    TokenArrays.objects.all().delete()
    Checkpoint.objects.get_or_create(run=run, iteration=1, defaults={"path": "", "bytes": 0, "time": timezone.now()})
    return run


@pytest.fixture
def attempt(played_run: Run, run: Run) -> Trajectory:
    found = Trajectory.objects.filter(run=run, iteration=2, split="train").order_by("-turn_count").first()
    assert found is not None
    return found


def shown(who: Visitors, attempt: Trajectory) -> str:
    return html.unescape(who.owner.get(f"/t/{attempt.slug}/tokens").content.decode())


def test_members_request_the_tokens_once_and_the_page_follows(attempt: Trajectory, who: Visitors) -> None:
    address = f"/t/{attempt.slug}/tokens"
    assert_private(f"{address}/computation", who)
    assert_private(f"{address}/compute", who, post=True)
    page = shown(who, attempt)
    assert "Compute from the checkpoint" in page
    assert "from the checkpoint of iteration 1, which sampled the attempt" in " ".join(page.split())
    assert "hx-get" not in page
    for visitor in (who.viewer, who.outsider, who.anonymous):
        assert visitor.post(f"{address}/compute").status_code in (302, 403, 404)
    assert "Compute from the checkpoint" not in who.viewer.get(address).content.decode()
    assert not TokenComputation.objects.exists()
    for _ in range(2):
        assert who.owner.post(f"{address}/compute").headers["Location"] == address
    computation = TokenComputation.objects.get()
    page = shown(who, attempt)
    assert "No worker is running: this starts as soon as one is." in page
    assert f'hx-get="{address}/computation?shown=' in page
    same = page.split("?shown=")[1].split('"')[0]
    assert who.viewer.get(f"{address}/computation?shown={same}").status_code == 204, "nothing new"
    now = timezone.now()
    worker = Worker.objects.create(name="worker@here", started_at=now, last_seen_at=now)
    assert "Waiting for a worker." in who.viewer.get(f"{address}/computation?shown={same}").content.decode()
    computation.state, computation.worker = TokenComputation.State.RUNNING, worker
    computation.save()
    assert "Worker worker@here loads the checkpoint" in shown(who, attempt)
    computation.state, computation.error = TokenComputation.State.FAILED, "Out of memory: it needs 3 GB."
    computation.save()
    page = shown(who, attempt)
    assert "Out of memory: it needs 3 GB." in page
    assert "Try again" in page
    who.owner.post(f"{address}/compute")
    assert who.viewer.post(f"{address}/cancel").status_code == 403
    who.owner.post(f"{address}/cancel")
    assert not TokenComputation.objects.exists()
    store(attempt, computed_from=1)
    assert who.viewer.get(f"{address}/computation").headers["HX-Refresh"] == "true"
    who.owner.post(f"{address}/compute")
    assert not TokenComputation.objects.exists(), "there is nothing left to compute"


def store(attempt: Trajectory, computed_from: int, sampled: int = 3) -> None:
    """Store computed tokens: a prompt token, and a response of each turn."""
    turns = [sampled] * attempt.turn_count
    segments = [
        segment
        for turn in range(attempt.turn_count)
        for segment in (Segment("task", turn, 1), Segment("response", turn, sampled, sampled=True, in_loss=True))
    ]
    count = sum(turns)
    context = token_arrays.context(
        segments,
        [7] * len(turns),
        [1] * len(turns),
        "pabc" * len(turns),
        ([float("nan"), *[-2.0] * (len(turns) - 1)],) * 2,
    )
    numbers: list[Any] = [list(range(count)), [1] * count, [-0.25] * count, [0.5] * count]
    packed = token_arrays.pack(token_arrays.arrays(turns, *numbers, None, "not_sent", context=context))
    data = token_arrays.compressed(packed)
    TokenArrays.objects.create(trajectory=attempt, data=data, computed_from=computed_from)


def test_computed_tokens_say_what_they_are_and_what_is_not_known(attempt: Trajectory, who: Visitors) -> None:
    store(attempt, computed_from=4)
    page = " ".join(shown(who, attempt).split())
    assert "computed from the checkpoint of iteration 4. These are not exactly the weights that sampled" in page
    assert "had finished 1 iteration and were not kept" in page
    assert "the policy may have sampled other ids for the same text. It certainly has: it sampled" in page
    assert "Not known: the sampler's log-probabilities of single tokens, advantages, importance ratios" in page
    assert "Mean log-probability of the responses" in page
    assert "−0.250 nats" in page
    assert "Not checked: The sampler's log-probabilities of single tokens are not recorded." in page
    reading = who.viewer.get(f"/t/{attempt.slug}/reading.json").json()
    assert reading["computed_from"] == 4
    assert not {"difference", "ratio", "advantage", "share"} & reading.keys(), "not known, and not 0"
    assert reading["logprob"][:2] == [None, -0.25]
    assert reading["entropy"][4] == -2.0, "what was read is scored as well"
    player = who.viewer.get(f"/t/{attempt.slug}/tokens.json").json()
    assert "computed from the weights after iteration 4" in player["note"]
    assert player["turns"][0]["tokens"][0]["advantage"] is None


def test_what_cannot_be_computed_says_why(attempt: Trajectory, who: Visitors) -> None:
    def sentence() -> str:
        page = shown(who, attempt)
        assert "Compute from the checkpoint" not in page
        assert who.owner.post(f"/t/{attempt.slug}/tokens/compute").status_code == 302
        assert not TokenComputation.objects.exists()
        return page

    trajectories, run = Trajectory.objects.filter(pk=attempt.pk), Run.objects.filter(pk=attempt.run_id)
    trajectories.update(superseded=True)
    assert "a later attempt of the run replaced this one" in sentence()
    trajectories.update(superseded=False, finished_seq=None)
    assert "They can be computed when the attempt has ended." in sentence()
    trajectories.update(finished_seq=1)
    Group.objects.filter(pk=attempt.group_id).update(kept=None)
    run.update(state=Run.State.RUNNING)
    assert "They can be computed when this iteration's update is done." in sentence()
    run.update(state=Run.State.FINISHED)
    Checkpoint.objects.all().delete()
    assert "no checkpoint of this run is kept" in sentence()
    run.update(imported=True)
    assert "its checkpoints are not on this site" in sentence()
    config = attempt.run.config
    run.update(config=config | {"hosted": {"url": "https://models.example.org"}})
    assert "the weights of a hosted model are not on this site" in sentence()
    run.update(config={"recorded": {}})
    assert "neither the weights nor the chat format of another trainer" in sentence()
