"""Rewinds that people ask for: requests, the trainer's answer, pages and API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.javascript import evaluate
from tests.webapp.page_requests import Visitors, who
from tests.webapp.runs.test_setting_changes import RATE, tell
from trainer.config.run import RunConfig
from trainer.journal.events import Rewound, SettingsChanged
from trainer.journal.protocol import CHANGES_FILE
from webapp.ingest.rebuild import do_rebuild_ended
from webapp.live.snapshot import snapshot
from webapp.runs import setting_changes
from webapp.runs.actions import RequestRefused
from webapp.runs.models import Checkpoint, LogLine, Run
from webapp.runs.setting_changes import InvalidChange, do_request_changes
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.teams.models import AuditEntry

__all__ = ["who"]


def answer(request: str, **fields: Any) -> SettingsChanged:
    facts: dict[str, Any] = {"iteration": 2, "changes": RATE, "rewind_from": 3, "rewind_to": 1, "rewinds": 1}
    return SettingsChanged(request=request, by="ada", why="it collapsed", **facts | fields)


@pytest.fixture
def trained(run: Run) -> Run:
    """A run after its third iteration, whose checkpoints of iterations 1 to 3 are kept."""
    events = [event for number in (1, 2, 3) for event in journal_builder.iteration(number)]
    run = tell(run, journal_builder.started(), *events)
    for iteration in (1, 2, 3):
        Checkpoint.objects.create(
            run=run, iteration=iteration, path=f"checkpoints/{iteration}", bytes=1, time=timezone.now()
        )
    return run


def test_a_rewind_waits_for_the_trainer_and_becomes_part_of_the_settings(trained: Run, people: People) -> None:
    asked = do_request_changes(trained, people.owner, RATE, "it collapsed", 1)
    assert (asked.rewind_to, asked.is_pending) == (1, True)
    details = AuditEntry.objects.latest("pk").details
    assert details == {"request": "rewind", "rewind_to": 1, "changes": RATE}
    setting_changes.deliver(UntrustedFolder(trained.folder), setting_changes.pending_requests(trained))
    (written,) = json.loads((trained.folder / CHANGES_FILE).read_text())["requests"]
    assert (written["rewind_to"], written["changes"], written["by"]) == (1, RATE, "ada")
    before = snapshot(trained)
    made = [answer(asked.request), Rewound(number=1, from_iteration=3, to_iteration=1)]
    after = tell(trained, *made)
    assert after.config["rewinds"] == {"3": "1"}
    assert after.config["changes"] == {"optimizer.policy_lr@2/1": "5e-5"}
    assert RunConfig.model_validate(after.config).at_iteration(2, 1).optimizer.policy_lr == 5e-5
    assert snapshot(after)["changes"] == [{"request": asked.request, "iteration": 2, "changes": RATE, "rewind_from": 3}]
    frames = [event.model_dump(mode="json") | {"seq": before["seq"] + n} for n, event in enumerate(made, 1)]
    reduced = evaluate("live/reducer.js", "reduceAll(data.state, data.events)", {"state": before, "events": frames})
    assert reduced["changes"] == snapshot(after)["changes"]
    line = LogLine.objects.get(run=trained, message__startswith="ada requested")
    assert line.message == (
        "ada requested a rewind to iteration 1, optimizer.policy_lr = 5e-5 (it collapsed), from iteration 2 on."
    )
    resumed = tell(after, journal_builder.started(attempt=2, from_iteration=1))
    assert (resumed.iteration, list(resumed.checkpoints.values_list("iteration", flat=True))) == (1, [1])
    do_rebuild_ended(resumed)
    (kept,) = resumed.setting_changes.all()
    assert (kept.rewind_from, kept.rewind_to, kept.author) == (3, 1, people.owner)


def test_values_asked_for_after_a_rewind_hold_after_it_only(trained: Run, people: People) -> None:
    after = tell(trained, Rewound(number=1, from_iteration=3, to_iteration=1))
    asked = do_request_changes(after, people.owner, RATE, "").request
    after = tell(after, answer(asked, iteration=4, rewind_from=None, rewind_to=None))
    assert after.config["changes"] == {"optimizer.policy_lr@4/1": "5e-5"}
    assert not after.config["rewinds"]
    (rate,) = [shown for shown in setting_changes.changeable_settings(after, {}) if shown.name in RATE]
    assert rate.value == "5e-05"


@pytest.mark.parametrize(
    ("target", "values", "words"),
    [
        (0, {}, r"No checkpoint of iteration 0 is kept \(kept: 1, 2, 3\)"),
        (3, {}, "Nothing was trained after iteration 3"),
        (1, {"optimizer.policy_lr": "fast"}, "must be a number, not 'fast'"),
        (1, {"rollout.groups": "9"}, "cannot change while a run trains"),
    ],
)
def test_impossible_rewinds_are_explained(
    trained: Run, people: People, target: int, values: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidChange, match=words):
        do_request_changes(trained, people.owner, values, "", target)
    assert not trained.setting_changes.exists()


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ({"state": "finished"}, "clone it instead, with policy.model run:"),
        ({"imported": True}, "trained elsewhere: rewind it where it is trained"),
        ({"config": {"kind": "sft"}}, "cannot be rewound: rewinds apply to iterations of StarPO"),
        ({"config": {"rollout": {"max_staleness": 1}, "cluster": {"rollout_actors": 1}}}, "max_staleness"),
    ],
)
def test_runs_that_cannot_rewind_say_why(trained: Run, people: People, stored: dict[str, Any], words: str) -> None:
    if "config" in stored:
        partial = {"algorithm": {"tis_cap": 2}} | stored["config"]
        stored["config"] = RunConfig.model_validate(partial).model_dump(mode="json")
    Run.objects.filter(pk=trained.pk).update(**stored)
    with pytest.raises(RequestRefused, match=words):
        do_request_changes(trained, people.owner, {}, "", 1)


def test_writers_confirm_a_rewind_on_its_page_and_a_notice_waits_with_them(trained: Run, who: Visitors) -> None:
    settings, page = f"/runs/{trained.slug}/configuration", f"/runs/{trained.slug}/rewind/1"
    assert page in who.owner.get(settings).content.decode()
    assert f"/runs/{trained.slug}/rewind/3" not in who.owner.get(settings).content.decode(), "nothing to play again"
    assert page not in who.viewer.get(settings).content.decode()
    assert who.viewer.get(page).status_code == 403
    confirmation = who.owner.get(page).content.decode()
    assert contains(confirmation, "<b>2 iterations</b> are played again: 2 to 3.")
    assert contains(who.owner.get(f"/runs/{trained.slug}/rewind/9").content.decode(), "No checkpoint of iteration 9")
    wrong = who.owner.post(page, {"optimizer.policy_lr": "fast", "why": "my reason"})
    assert wrong.status_code == 422
    assert contains(wrong.content.decode(), "Policy learning rate: must be a number")
    assert 'value="my reason"' in wrong.content.decode()
    assert who.viewer.post(page).status_code == 403
    assert who.owner.post(page, {"why": "it collapsed"})["Location"] == f"/runs/{trained.slug}/"
    (asked,) = trained.setting_changes.all()
    notice = f'data-waiting-rewind="{asked.request}"'
    for visitor in (who.owner, who.viewer):
        shown = visitor.get(f"/runs/{trained.slug}/").content.decode()
        assert notice in shown
        assert contains(shown, "asked to go back to iteration 1 (it collapsed)")
    assert contains(who.owner.get(page).content.decode(), "A rewind to iteration 1 waits for the trainer already.")
    after = tell(trained, answer(asked.request, changes={}), Rewound(number=1, from_iteration=3, to_iteration=1))
    assert notice not in who.owner.get(f"/runs/{after.slug}/").content.decode()
    assert contains(
        who.viewer.get(settings).content.decode(), "Back to the checkpoint of iteration 1, from iteration 3"
    )
    assert contains(who.viewer.get(f"/runs/{after.slug}/curves").content.decode(), "From iteration 2: back from 3")


def test_changes_that_come_again_are_announced(trained: Run, who: Visitors) -> None:
    trained.config["changes"] = {"optimizer.policy_lr@3": "0.001", "optimizer.policy_lr@9": "0.002"}
    Run.objects.filter(pk=trained.pk).update(config=trained.config)
    page = who.owner.get(f"/runs/{trained.slug}/rewind/1").content.decode()
    assert contains(page, "In iteration 3, <code>optimizer.policy_lr</code> becomes 0.001 again")
    assert "0.002" not in page
