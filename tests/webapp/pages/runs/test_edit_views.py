"""Title, tags and notes of a run, its archive and its deletion in the browser."""

from __future__ import annotations

import re

import pytest
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, play, who
from webapp.runs.models import Run
from webapp.teams.actions import do_set_role
from webapp.teams.models import Membership

__all__ = ["who"]


def test_title_tags_and_notes_are_edited_and_shown(run: Run, who: Visitors) -> None:
    path = f"/runs/{run.slug}/edit"
    assert run.title in who.owner.get(path).content.decode()
    values = {"title": "Wide lake", "tags": "ice, slip , ice", "notes": "Slips **more** <script>"}
    assert who.owner.post(path, values)["Location"] == f"/runs/{run.slug}/"
    run.refresh_from_db()
    assert (run.title, run.tags) == ("Wide lake", ["ice", "slip"])
    page = who.viewer.get(f"/runs/{run.slug}/").content.decode()
    assert "Slips <strong>more</strong> &lt;script&gt;" in page


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"title": " "}, "This field is required"),
        ({"title": "a", "tags": ",".join(map(str, range(21)))}, "at most 20 tags"),
        ({"title": "a", "tags": "x" * 41}, "40 characters at most"),
        ({"title": "a", "notes": "x" * 20_001}, "at most 20000 characters"),
    ],
)
def test_invalid_values_are_explained_and_kept_in_the_form(
    values: dict[str, str], words: str, run: Run, who: Visitors
) -> None:
    page = who.owner.post(f"/runs/{run.slug}/edit", values).content.decode()
    assert words in page
    assert "Fix 1 field to save." in page
    run.refresh_from_db()
    assert run.title == "Trial"


def test_the_form_keeps_what_others_changed_meanwhile(run: Run, who: Visitors, settings: Settings) -> None:
    notes = "one\n\n  two"
    Run.objects.filter(pk=run.pk).update(tags=["a", "b", "t" * 50], notes=notes)
    path = f"/runs/{run.slug}/edit"
    page = who.owner.get(path).content.decode()
    shown = dict(re.findall(r'name="(was_\w+)" value="([^"]*)"', page))
    assert shown == {"was_title": "Trial", "was_tags": "a, b, " + "t" * 50, "was_notes": notes}
    shown = {name: value.replace("\n", "\r\n") for name, value in shown.items()}  # as browsers do
    Run.objects.filter(pk=run.pk).update(title="Theirs", notes="theirs")
    settings.ECHOSCOPE_MAX_TAGS_PER_RUN = 2
    sent = {name.removeprefix("was_"): value for name, value in shown.items()} | shown
    assert who.owner.post(path, sent).status_code == 302, "tags within an earlier quota stay"
    run.refresh_from_db()
    assert (run.title, run.notes, len(run.tags)) == ("Theirs", "theirs", 3)
    assert "at most 2 tags" in who.owner.post(path, sent | {"tags": "a, b, c"}).content.decode()
    assert who.owner.post(path, sent | {"tags": "c"}).status_code == 302
    run.refresh_from_db()
    assert (run.title, run.notes, run.tags) == ("Theirs", "theirs", ["c"])


def test_a_run_is_archived_when_it_has_ended_and_put_back(run: Run, who: Visitors) -> None:
    path = f"/runs/{run.slug}/archive"
    refused = who.owner.post(path, {"archived": "1"}, follow=True).content.decode()
    assert "only runs that have ended can be archived" in refused
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    assert "lists leave this run out" in who.owner.post(path, {"archived": "1"}, follow=True).content.decode()
    who.owner.post(path)
    run.refresh_from_db()
    assert run.archived_at is None


def test_a_deletion_needs_the_slug_and_an_ended_run(run: Run, who: Visitors) -> None:
    play(run)
    path = f"/runs/{run.slug}/delete"

    def is_offered() -> bool:
        link = re.search(
            rf'<a class="button danger" href="{path}"([^>]*)>', who.owner.get(f"/runs/{run.slug}/").content.decode()
        )
        assert link is not None
        return "hidden" not in link[1]

    assert not is_offered()
    assert "This run has not ended" in who.owner.get(path).content.decode()
    assert "Cancel it first" in who.owner.post(path, {"confirm": run.slug}).content.decode()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    assert is_offered()
    assert "attempts with all turns" in who.owner.get(path).content.decode()
    assert "Nothing was deleted" in who.owner.post(path, {"confirm": "yes"}).content.decode()
    assert Run.objects.filter(pk=run.pk).exists()
    assert who.owner.post(path, {"confirm": run.slug})["Location"] == "/"
    assert not Run.objects.filter(pk=run.pk).exists()


def test_a_member_deletes_only_own_runs(people: People, run: Run, who: Visitors) -> None:
    do_set_role(people.team, people.viewer, Membership.Role.MEMBER)
    assert who.viewer.get(f"/runs/{run.slug}/edit").status_code == 200
    assert who.viewer.get(f"/runs/{run.slug}/delete").status_code == 403
    Run.objects.filter(pk=run.pk).update(author=people.viewer)
    assert who.viewer.get(f"/runs/{run.slug}/delete").status_code == 200


def test_cancelling_is_undone_from_the_page(run: Run, who: Visitors) -> None:
    page = who.owner.post(f"/runs/{run.slug}/cancel", follow=True).content.decode()
    assert "Cancelled by mistake?" in page
    assert "Cancelled by mistake?" not in who.viewer.get(f"/runs/{run.slug}/").content.decode()
    page = who.owner.post(f"/runs/{run.slug}/undo-cancel", follow=True).content.decode()
    assert "The cancellation is undone" in page
    run.refresh_from_db()
    assert run.state == "queued"
