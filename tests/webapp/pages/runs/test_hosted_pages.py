"""Evaluation of a hosted model on the site: every page opens, and unknown values are not shown as numbers."""

from __future__ import annotations

import html
import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.trainer.hosted_server import Reply, Server, completion
from tests.webapp.page_requests import Visitors, who
from trainer.config.run import RunConfig
from trainer.loops import run_factory
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

__all__ = ["who"]
TOKENS = ["<think>", "go", "</think>", "<answer>", "Up", "</answer>"]


def reply_with_tokens(body: dict[str, Any]) -> Reply:
    return completion("".join(TOKENS), tokens=TOKENS, prompt=50, written=6)


def reply_without_tokens(body: dict[str, Any]) -> Reply:
    return completion("".join(TOKENS), prompt=50, written=9)


@pytest.fixture(params=[reply_with_tokens, reply_without_tokens])
def hosted(request: pytest.FixtureRequest, run: Run) -> Run:
    """A run played by a hosted model whose endpoint reports tokens, or does not."""
    with Server(request.param).running() as server:
        config = RunConfig.model_validate(
            {
                "kind": "evaluate",
                "evaluation": {"prompts": 2, "suites": ["Bandit"]},
                "hosted": {
                    "url": server.url,
                    "model": "some-model",
                    "price_per_million": [1, 2],
                },
            }
        )
        run_factory.run(config, run.folder, run.folder / "cache")
    Run.objects.filter(pk=run.pk).update(
        config=config.model_dump(mode="json"), title=config.title(), iterations=0, state=Run.State.STARTING
    )
    run.refresh_from_db()
    JournalTailer(run).drain()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    run.refresh_from_db()
    run.kept = request.param is reply_with_tokens  # type: ignore[attr-defined]
    return run


def test_every_page_of_a_hosted_run_opens_and_shows_its_usage(hosted: Run, who: Visitors) -> None:
    for tab in ("", "trajectories", "curves", "evaluation", "configuration", "snapshot.json", "curves.csv"):
        answer = who.owner.get(f"/runs/{hosted.slug}/{tab}")
        assert answer.status_code == 200, tab
    page = html.unescape(who.owner.get(f"/runs/{hosted.slug}/").content.decode())
    assert "some-model" in page
    assert "hosted at 127.0.0.1" in page
    curves = html.unescape(who.owner.get(f"/runs/{hosted.slug}/curves").content.decode())
    assert "hosted/cost" in curves
    assert "Completion tokens" in curves
    answer = who.owner.get(f"/api/runs/{hosted.slug}")
    assert answer.json()["parameters"] == 0


def test_the_player_shows_only_reported_values(hosted: Run, who: Visitors) -> None:
    trajectory = Trajectory.objects.filter(run=hosted).first()
    assert trajectory is not None
    page = who.owner.get(f"/t/{trajectory.slug}").content.decode()
    assert "nats/token" not in page
    assert f"{6 if hosted.kept else 9} tokens" in page  # type: ignore[attr-defined]
    found = who.owner.get(f"/t/{trajectory.slug}/tokens.json").json()
    if not hosted.kept:  # type: ignore[attr-defined]
        assert found["turns"] == []
        assert "returned no log-probabilities of its tokens" in found["note"]
        return
    first = found["turns"][0]["tokens"]
    assert [token["text"] for token in first] == TOKENS
    assert [token["logprob"] for token in first] == [-0.5, -1.0, -1.5, -2.0, -2.5, -3.0]
    assert {token["entropy"] for token in first} == {token["advantage"] for token in first} == {None}
    assert "No entropies" in found["note"]
    assert "No advantages" in found["note"]


def test_exports_leave_unknown_numbers_empty(hosted: Run, who: Visitors) -> None:
    answer = who.owner.get(f"/runs/{hosted.slug}/export/parquet")
    assert answer.status_code == 200
    data = b"".join(answer.streaming_content) if answer.streaming else answer.content
    turns = [turn for row in pq.read_table(io.BytesIO(data)).to_pylist() for turn in row["turns"]]
    assert {turn["entropy"] for turn in turns} == {None}
    assert {turn["logprob"] for turn in turns} == ({-1.75} if hosted.kept else {None})  # type: ignore[attr-defined]
