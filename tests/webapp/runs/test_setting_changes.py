"""Settings that people change while a run trains: requests, answers of the trainer, pages and API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.javascript import evaluate
from tests.webapp.page_requests import Visitors, who
from trainer.config.run import RunConfig
from trainer.journal.events import Event, SettingsChanged
from trainer.journal.protocol import CHANGES_FILE
from webapp.ingest.rebuild import do_rebuild_ended
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import snapshot
from webapp.runs import setting_changes
from webapp.runs.actions import RequestRefused
from webapp.runs.models import LogLine, Run
from webapp.runs.setting_changes import InvalidChange, do_request_changes
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.teams.models import AuditEntry

__all__ = ["who"]

RATE = {"optimizer.policy_lr": "5e-5"}
PAGE = "/runs/{}/configuration"


def answer(request: str, iteration: int = 2, **fields: Any) -> SettingsChanged:
    return SettingsChanged(
        iteration=iteration, changes=RATE, request=request, by="ada", why="the curve is shaky", **fields
    )


def tell(run: Run, *events: Event) -> Run:
    journal_builder.write(run.folder, *events)
    JournalTailer(run).drain()
    return Run.objects.get(pk=run.pk)


def test_a_request_waits_for_the_trainer_and_its_answer_becomes_part_of_the_settings(run: Run, people: People) -> None:
    change = do_request_changes(run, people.owner, RATE, " the curve is shaky ")
    assert (change.is_pending, change.by, change.why) == (True, "ada", "the curve is shaky")
    assert AuditEntry.objects.latest("pk").details["changes"] == RATE
    requests = setting_changes.pending_requests(run)
    asked = {"request": change.request, "changes": RATE, "by": "ada", "why": "the curve is shaky", "rewind_to": None}
    assert requests == [asked]
    run.folder.mkdir(parents=True, exist_ok=True)
    setting_changes.deliver(UntrustedFolder(run.folder), requests)
    assert json.loads((run.folder / CHANGES_FILE).read_text()) == {"requests": requests}
    told = tell(run, journal_builder.started(), *journal_builder.iteration(1), answer(change.request))
    assert setting_changes.pending_requests(told) == []
    assert told.config["changes"] == {"optimizer.policy_lr@2": "5e-5"}
    config = RunConfig.model_validate(told.config)
    assert (config.optimizer.policy_lr, config.at_iteration(2).optimizer.policy_lr) == (1e-4, 5e-5)
    shown = {"request": change.request, "iteration": 2, "changes": RATE, "rewind_from": None}
    assert snapshot(told)["changes"] == [shown]
    line = LogLine.objects.get(run=run, message__startswith="ada requested")
    assert line.message == "ada requested optimizer.policy_lr = 5e-5 (the curve is shaky), from iteration 2 on."
    do_rebuild_ended(told)
    told.refresh_from_db()
    (kept,) = told.setting_changes.all()
    assert (kept.iteration, kept.author, kept.why) == (2, people.owner, "the curve is shaky")


def test_the_live_page_follows_changes_as_a_reload_would_show_them(run: Run, people: People) -> None:
    asked = do_request_changes(run, people.owner, RATE, "").request
    before = snapshot(tell(run, journal_builder.started(), *journal_builder.iteration(1)))
    planned = SettingsChanged(iteration=3, changes={"rollout.temperature": "0.7"})
    events = [answer(asked), answer("other", refused="no"), planned, answer(asked, iteration=4)]
    after = snapshot(tell(run, *events))
    assert [change["iteration"] for change in after["changes"]] == [3, 4]
    written = [event.model_dump(mode="json") | {"seq": before["seq"] + n} for n, event in enumerate(events, 1)]
    reduced = evaluate("live/reducer.js", "reduceAll(data.state, data.events)", {"state": before, "events": written})
    assert reduced["changes"] == after["changes"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"optimizer.policy_lr": "fast"}, "must be a number, not 'fast'"),
        ({"optimizer.policy_lr": "7"}, "must be at most 1"),
        ({"rollout.groups": "9"}, "cannot change while a run trains"),
        ({"optimizer.policy_lr": "0.0001"}, "nothing would change"),
    ],
)
def test_impossible_values_are_explained(run: Run, people: People, values: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidChange, match=words):
        do_request_changes(run, people.owner, values, "")
    assert not run.setting_changes.exists()


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ({"state": "finished"}, "clone it"),
        ({"imported": True}, "trained elsewhere"),
        ({"config": {"kind": "evaluate"}}, "a run of kind evaluate"),
        ({"config": {"rollout": {"max_staleness": 1}, "cluster": {"rollout_actors": 1}}}, "max_staleness"),
    ],
)
def test_runs_that_cannot_change_say_why(run: Run, people: People, stored: dict[str, Any], words: str) -> None:
    if "config" in stored:
        partial = {"algorithm": {"tis_cap": 2}} | stored["config"]
        stored["config"] = RunConfig.model_validate(partial).model_dump(mode="json")
    Run.objects.filter(pk=run.pk).update(**stored)
    with pytest.raises(RequestRefused, match=words):
        do_request_changes(run, people.owner, RATE, "")


def test_writers_change_settings_on_the_page_and_others_see_what_changed(run: Run, who: Visitors) -> None:
    page = PAGE.format(run.slug)
    assert 'placeholder="0.0001"' in who.owner.get(page).content.decode()
    assert 'name="optimizer.policy_lr"' not in who.viewer.get(page).content.decode()
    sent = {**RATE, "optimizer.critic_lr": " ", "why": "the curve is shaky"}
    response = who.owner.post(f"/runs/{run.slug}/change", sent)
    assert response["Location"] == f"{page}#change-settings"
    assert who.viewer.post(f"/runs/{run.slug}/change", sent).status_code == 403
    (change,) = run.setting_changes.all()
    assert contains(who.viewer.get(page).content.decode(), "waiting for the trainer")
    refused = answer("other", refused="folder /srv/secret")
    tell(run, journal_builder.started(), *journal_builder.iteration(1), answer(change.request), refused)
    inside = who.viewer.get(page).content.decode()
    assert contains(inside, "the curve is shaky")
    assert contains(inside, "folder /srv/secret")
    curves = who.viewer.get(f"/runs/{run.slug}/curves").content.decode()
    assert contains(curves, "From iteration 2:")
    Run.objects.filter(pk=run.pk).update(visibility="link")
    outside = who.anonymous.get(page).content.decode()
    assert contains(outside, "iteration 2")
    assert "shaky" not in outside
    assert "/srv/secret" not in outside


@pytest.mark.parametrize(
    ("sent", "words"),
    [({}, "Enter a new value"), ({"optimizer.policy_lr": "fast"}, "Policy learning rate: must be a number")],
)
def test_a_wrong_entry_stays_in_the_form(run: Run, who: Visitors, sent: dict[str, str], words: str) -> None:
    response = who.owner.post(f"/runs/{run.slug}/change", {**sent, "why": "my reason"})
    page = response.content.decode()
    assert response.status_code == 422
    assert contains(page, words)
    assert page.count('aria-invalid="true"') == len(sent)
    assert 'value="my reason"' in page
    assert all(f'value="{text}"' in page for text in sent.values())
