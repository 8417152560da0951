"""Outside the team, error messages are general: they name folders and machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.webapp import journal_builder
from tests.webapp.page_requests import Visitors, who
from trainer.journal import events as journal
from webapp.ingest.tailer import JournalTailer
from webapp.runs import public_texts
from webapp.runs.models import EventBatch, Run
from webapp.trajectories.models import ShareLink, Trajectory

__all__ = ["who"]

SECRET = "/srv/secret/path"


@pytest.fixture
def failed(run: Run, tmp_path: Path) -> Run:
    end = journal_builder.end("a", 1, success=False).model_copy(update={"error": SECRET})
    journal_builder.write(
        tmp_path / "run",
        journal_builder.started(),
        journal_builder.group(1, 0, ["a"]),
        journal_builder.turn("a", 0),
        end,
        journal.Notice(level="error", message=SECRET),
        journal.RunFinished(reason="error", iteration=0, message=SECRET),
    )
    JournalTailer(run, tmp_path / "run").drain()
    Run.objects.filter(pk=run.pk).update(
        visibility=Run.Visibility.LINK, state=Run.State.FAILED, failure=SECRET, journal_error=SECRET
    )
    run.refresh_from_db()
    return run


def text_of(response: Any) -> str:
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return str(content.decode())


def test_pages_and_api_name_the_reason_to_the_team_only(failed: Run, who: Visitors) -> None:
    pages = [f"/runs/{failed.slug}/", f"/runs/{failed.slug}/curves", f"/runs/{failed.slug}/snapshot.json"]
    played = Trajectory.objects.get(run=failed)
    pages += [f"/t/{played.slug}/export/json", f"/runs/{failed.slug}/export/jsonl"]
    api = [
        f"/api/runs/{failed.slug}",
        f"/api/runs/{failed.slug}/trajectories",
        f"/api/trajectories/{played.slug}",
    ]
    for address in pages + api:
        inside = text_of(who.viewer.get(address))
        assert SECRET in inside, address
        for visitor in (who.outsider,) if address in api else (who.outsider, who.anonymous):
            response = visitor.get(address)
            assert response.status_code == 200
            assert SECRET not in text_of(response), address
    link = ShareLink.objects.create(trajectory=played, author=None)
    shared = json.loads(text_of(who.viewer.get(f"/s/{link.token}/export/json")))
    assert shared["error"] == public_texts.FAILURE
    page = who.anonymous.get(f"/runs/{failed.slug}/").content.decode()
    assert "visible to the run&#x27;s team only" in page


def test_frames_keep_every_event_but_not_its_message(failed: Run) -> None:
    texts = list(EventBatch.objects.filter(run=failed).order_by("first_seq").values_list("frame", flat=True))
    public = [public_texts.public_frame(text) for text in texts]
    assert SECRET in "".join(texts)
    assert SECRET not in "".join(public)
    before, after = ([event for text in group for event in json.loads(text)["events"]] for group in (texts, public))
    assert [(event["seq"], event["type"]) for event in before] == [(event["seq"], event["type"]) for event in after]
    plain = '{"type":"events","first":1,"last":1,"events":[{"type":"turn"}]}'
    assert public_texts.public_frame(plain) is plain


@pytest.mark.parametrize(
    "event",
    [
        '{"type": "notice", "seq": 1, "message": "/srv/secret/path"}',
        '{"t\\u0079pe":"not\\u0069ce","seq":1,"mess\\u0061ge":"/srv/secret/path"}',
        '{"type" :"run_finished","seq":1,"message"\t:"/srv/secret/path"}',
        '{"type":"trajectory_finished","seq":1,"e\\u0072ror" : "/srv/secret/path"}',
    ],
)
def test_frames_are_read_however_their_json_is_written(event: str) -> None:
    text = f'{{"type":"events","first":1,"last":1,"events":[{event}]}}'
    public = public_texts.public_frame(text)
    assert SECRET not in public
    assert json.loads(public)["events"][0]["seq"] == 1
