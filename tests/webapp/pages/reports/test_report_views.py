"""Reports in the browser's view: writing, embeds by what the reader may see, versions, sharing, deletion."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, assert_private, play, who
from webapp.annotations.actions import do_star, do_tag
from webapp.core.soft_delete import do_purge
from webapp.explorer import filmstrip
from webapp.operations.retention import thinnable
from webapp.reports.actions import do_create_report, do_edit_report
from webapp.reports.models import Report
from webapp.reports.report_queries import insertable_trajectories
from webapp.runs.models import Evaluation, Run
from webapp.teams.models import Removal
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory
from webapp.trajectories.render import preview
from webapp.trajectories.render.drawing_queue import DRAWINGS, MAX_WAITING
from webapp.trajectories.serialize import player_data
from webapp.trajectories.sharing.public import outcome_of

__all__ = ["who"]

HOSTS = frozenset({"testserver"})


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path


@pytest.fixture
def report(people: People) -> Report:
    return do_create_report(people.team, people.owner, "What broke", "Some *words*.", HOSTS)


def write(client: Client, body: str, **more: str) -> Report:
    response = client.post("/reports/new", {"title": "New", "body": body, "visibility": "team", **more})
    assert response.status_code == 302, response.content.decode()
    return Report.objects.get(slug=response["Location"].rsplit("/", 1)[1])


def page(client: Client, report: Report) -> str:
    response = client.get(f"/reports/{report.slug}")
    assert response.status_code == 200
    return str(response.content.decode())


def test_a_report_is_written_listed_found_and_read(who: Visitors) -> None:
    assert "Write the first report" in who.owner.get("/reports").content.decode()
    report = write(who.owner, "# Why\n\nThe **box** was stuck.", title="  Locked   boxes ")
    text = page(who.viewer, report)
    assert "<h1>Locked boxes</h1>" in text
    assert "<h2>Why</h2>" in text
    assert f"/reports/{report.slug}/edit" not in text, "viewers cannot edit"
    assert "Locked boxes" in who.viewer.get("/reports?q=box stuck").content.decode()
    assert "Nothing found" in who.viewer.get("/reports?q=absent").content.decode()
    assert "Locked boxes" not in who.outsider.get("/reports").content.decode()


def test_only_the_team_reads_it_and_only_writers_change_it(report: Report, who: Visitors) -> None:
    for part in ("", "/edit", "/history", "/history/1", "/blocks", "/picture.png", "/export/markdown"):
        assert_private(f"/reports/{report.slug}{part}", who)
    for part in ("/edit", "/visibility", "/archive", "/delete", "/history/1/restore"):
        assert_private(f"/reports/{report.slug}{part}", who, post=True)
        assert who.viewer.post(f"/reports/{report.slug}{part}").status_code == 403
    assert who.viewer.get("/reports/new").status_code == 403
    assert who.viewer.post("/reports/preview", {"body": "a"}).status_code == 403


def test_embeds_show_run_result_curves_player_and_film(run: Run, who: Visitors) -> None:
    play(run, finished=3)
    played = Trajectory.objects.filter(run=run).first()
    assert played is not None
    lines = [
        f"http://testserver/runs/{run.slug}/",
        f"/runs/{run.slug}/evaluation",
        f"[Reward](/runs/{run.slug}/curves?names=reward/mean)",
        f"/compare?runs={run.slug},unknown",
        f"/t/{played.slug}?turn=1&action=1",
        f"/t/{played.slug}/prompt",
    ]
    report = write(who.owner, "\n".join(lines))
    text = page(who.viewer, report)
    assert "Not visible to you" not in text
    assert text.count("report-embed") == 6
    assert f'src="/t/{played.slug}/embed?turn=1&amp;action=1"' in text
    assert "<figcaption>Reward</figcaption>" in text
    assert "<polyline points=" in text
    assert "1 run not visible to you" in text
    frame = who.viewer.get(f"/t/{played.slug}/embed?turn=1")
    assert frame["X-Frame-Options"] == "SAMEORIGIN"
    assert "frame-ancestors 'self'" in frame["Content-Security-Policy"]
    assert f"/reports/{report.slug}" in who.viewer.get(f"/runs/{run.slug}/").content.decode()
    assert f"/reports/{report.slug}" not in who.outsider.get(f"/runs/{run.slug}/").content.decode()


def test_the_result_of_an_active_run_is_that_of_its_last_evaluation(run: Run, who: Visitors) -> None:
    for iteration, prompts, success in ((0, 32, 0.25), (2, 64, 0.5)):
        Evaluation.objects.create(
            run=run,
            iteration=iteration,
            suite=run.environment,
            prompts=prompts,
            success=success,
            success_low=success - 0.125,
            success_high=success + 0.125,
            mean_reward=0,
            mean_turns=1,
            mean_actions=1,
            time=timezone.now(),
        )
    text = " ".join(page(who.viewer, write(who.owner, f"/runs/{run.slug}/evaluation\n/runs/{run.slug}/")).split())
    assert "Success on 64 fixed puzzles of Sokoban, after iteration 2; 95% interval 37.5% to 62.5%." in text
    assert "Sokoban · StarPO" in text


def test_a_reader_sees_only_embeds_they_may_see(run: Run, people: People, who: Visitors) -> None:
    play(run, finished=2)
    hidden, shared = Trajectory.objects.filter(run=run)[:2]
    link = do_share_trajectory(shared, people.owner)
    body = f"/runs/{run.slug}/\n/runs/{run.slug}/curves\n/t/{hidden.slug}\n/s/{link.token}"
    report = write(who.owner, body, visibility="link")
    assert "not see 3 embeds" in " ".join(page(who.owner, report).split())
    for reader in (who.outsider, who.anonymous):
        text = page(reader, report)
        assert text.count("Not visible to you") == 3
        assert f'src="/embed/{link.token}"' in text
        assert run.title not in text
        assert people.team.name not in text
        assert hidden.slug not in text.split('<meta property="og:url"')[1].split("report-body")[1]
    assert "csrfmiddlewaretoken" not in page(who.anonymous, report)
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    assert "Not visible to you" not in page(who.anonymous, report)
    link.revoked_at = timezone.now()
    link.save()
    assert page(who.anonymous, report).count("Not visible to you") == 1


def test_queries_do_not_grow_with_embedded_trajectories(
    run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    play(run, finished=3)
    slugs = list(Trajectory.objects.filter(run=run).values_list("slug", flat=True)[:12])
    assert len(slugs) == 12
    report = write(who.owner, "\n".join(f"/t/{slug}" for slug in slugs))
    with django_assert_max_num_queries(10):
        page(who.owner, report)


def test_a_second_editor_loses_nothing(report: Report, who: Visitors, people: People) -> None:
    path = f"/reports/{report.slug}/edit"
    first = {"title": "What broke", "body": "Ada's words.", "version": "1"}
    assert who.owner.post(path, first).status_code == 302
    late = {"title": "What broke", "body": "Other words.", "version": "1"}
    response = who.owner.post(path, late)
    text = response.content.decode()
    assert response.status_code == 409
    assert "ada saved version 2 while you were writing" in text
    assert "Other words.</textarea>" in text, "the second text is kept"
    assert "Ada&#x27;s words." in text, "and compared with the first"
    assert "data-unsaved" in text, "leaving the page asks first"
    assert "data-unsaved" not in who.owner.get(path).content.decode()
    report.refresh_from_db()
    assert report.body == "Ada's words."
    version = re.search(r'name="version" value="(\d+)"', text)
    assert version is not None
    assert who.owner.post(path, late | {"version": version[1]}).status_code == 302
    assert [revision.body for revision in report.revisions.all()] == ["Other words.", "Ada's words.", "Some *words*."]
    assert who.owner.post(path, late | {"version": "1"}).status_code == 302, "the same text again is no conflict"


def test_versions_are_compared_and_restored(report: Report, who: Visitors) -> None:
    who.owner.post(f"/reports/{report.slug}/edit", {"title": "Renamed", "body": "Better.", "version": "1"})
    assert "ada" in who.viewer.get(f"/reports/{report.slug}/history").content.decode()
    text = who.viewer.get(f"/reports/{report.slug}/history/2").content.decode()
    assert "Some *words*." in text
    assert "What broke → Renamed" in text
    assert who.owner.post(f"/reports/{report.slug}/history/1/restore").status_code == 302
    report.refresh_from_db()
    assert (report.title, report.body, report.version) == ("What broke", "Some *words*.", 3)
    assert "restores 1" in who.viewer.get(f"/reports/{report.slug}/history").content.decode()
    assert who.owner.get(f"/reports/{report.slug}/history/9").status_code == 404
    assert who.owner.get(f"/reports/{report.slug}/history/99999999999999999999").status_code == 404


def test_old_versions_are_dropped_beyond_the_quota(report: Report, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REVISIONS_PER_REPORT = 2
    for number in (1, 2, 3):
        edit = {"title": "T", "body": f"Text {number}", "version": str(number)}
        assert who.owner.post(f"/reports/{report.slug}/edit", edit).status_code == 302
    assert [revision.number for revision in report.revisions.all()] == [4, 3]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"title": " "}, "Give the report a title"),
        ({"title": "x" * 201}, "at most 200 characters"),
        ({"body": "x" * 101}, "at most 100 characters"),
        ({"body": "/runs/a/\n" * 3}, "at most 2 embeds"),
        ({"visibility": "world"}, "Choose who may read"),
    ],
)
def test_a_refused_text_is_kept_with_the_reason(
    who: Visitors, settings: Settings, values: dict[str, str], words: str
) -> None:
    settings.ECHOSCOPE_MAX_REPORT_CHARACTERS, settings.ECHOSCOPE_MAX_EMBEDS_PER_REPORT = 100, 2
    data = {"title": "T", "body": "my words", "visibility": "team"} | values
    response = who.owner.post("/reports/new", data)
    assert response.status_code == 422
    text = response.content.decode()
    assert words in text
    assert data["body"].strip() in text
    assert not Report.objects.exists()


def test_a_team_has_a_limited_number_of_reports(report: Report, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REPORTS_PER_TEAM = 1
    response = who.owner.post("/reports/new", {"title": "T", "body": "", "visibility": "team"})
    assert response.status_code == 422
    assert "the most that a team may have" in response.content.decode()


def test_deleted_reports_count_too(report: Report, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REPORTS_PER_TEAM = 1
    who.owner.post(f"/reports/{report.slug}/delete")
    refused = who.owner.post("/reports/new", {"title": "T", "body": "", "visibility": "team"})
    assert refused.status_code == 422
    assert "can still be brought back" in refused.content.decode()
    settings.ECHOSCOPE_MAX_REPORTS_PER_TEAM = 2
    write(who.owner, "")
    write(who.owner, "")
    undo = reverse("undo", args=[Removal.objects.get().slug])
    assert "Delete another one first" in who.owner.post(undo, follow=True).content.decode()
    assert who.owner.get(f"/reports/{report.slug}").status_code == 404
    settings.ECHOSCOPE_MAX_REPORTS_PER_TEAM = 3
    assert "Undone" in who.owner.post(undo, follow=True).content.decode()
    assert who.owner.get(f"/reports/{report.slug}").status_code == 200


def test_a_deleted_report_can_be_brought_back_for_a_while(report: Report, who: Visitors) -> None:
    response = who.owner.post(f"/reports/{report.slug}/delete", follow=True)
    assert "You can undo this for 30 days." in response.content.decode()
    assert who.owner.get(f"/reports/{report.slug}").status_code == 404
    undo = reverse("undo", args=[Removal.objects.get().slug])
    assert who.viewer.post(undo).status_code == 403
    assert who.outsider.post(undo).status_code == 404
    assert who.owner.post(undo).status_code == 302
    assert "Some <em>words</em>." in page(who.owner, report)
    who.owner.post(f"/reports/{report.slug}/delete")
    assert do_purge(timezone.now() + timedelta(days=29)) == 0
    assert do_purge(timezone.now() + timedelta(days=30)) > 0
    assert not Report._base_manager.exists()


def test_an_archived_report_leaves_the_list(report: Report, who: Visitors) -> None:
    who.owner.post(f"/reports/{report.slug}/archive", {"archived": "1"})
    assert "What broke" not in who.owner.get("/reports").content.decode()
    assert "What broke" in who.owner.get("/reports?archived=1").content.decode()
    assert "Archived on" in page(who.owner, report)


def test_a_public_report_has_a_preview_and_may_be_indexed(report: Report, who: Visitors) -> None:
    who.owner.post(f"/reports/{report.slug}/visibility", {"visibility": "link"})
    response = who.anonymous.get(f"/reports/{report.slug}")
    assert "noindex" in response["X-Robots-Tag"]
    who.owner.post(f"/reports/{report.slug}/visibility", {"visibility": "public"})
    response = who.anonymous.get(f"/reports/{report.slug}")
    assert response["X-Robots-Tag"] == "all"
    found = re.search(r'property="og:image" content="http://testserver([^"]+)"', response.content.decode())
    assert found is not None
    picture = who.anonymous.get(found[1])
    assert picture["Content-Type"] == "image/png"
    assert picture.content[16:24] == (1200).to_bytes(4, "big") + (630).to_bytes(4, "big")
    assert "/history" not in response.content.decode()
    assert who.anonymous.get(f"/reports/{report.slug}/history").status_code == 302


def test_a_report_is_exported_as_markdown_and_as_one_file(run: Run, who: Visitors) -> None:
    play(run, finished=2)
    played = Trajectory.objects.filter(run=run).first()
    assert played is not None
    report = write(who.owner, f"Look:\n\n/t/{played.slug}\n\n/runs/{run.slug}/curves\n\n/t/{played.slug}/prompt\n")
    markdown = who.viewer.get(f"/reports/{report.slug}/export/markdown")
    assert markdown.content.decode().startswith("# New\n\nLook:\n\n/t/")
    assert "attachment" in markdown["Content-Disposition"]
    text = who.viewer.get(f"/reports/{report.slug}/export/html").content.decode()
    assert text.count('src="data:image/png;base64,') == 2
    assert "<iframe" not in text
    assert "<script" not in text
    assert "<link" not in text
    assert '<base href="http://testserver/">' in text
    assert who.viewer.get(f"/reports/{report.slug}/export/pdf").status_code == 404
    for address in (f"/t/{played.slug}/picture.png", f"/t/{played.slug}/film.png"):
        picture = base64.b64encode(who.viewer.get(address).content).decode()
        assert f"base64,{picture}" in text, "marks, verdict and all, as on the site"


def test_pictures_load_nothing_while_too_many_others_wait(
    run: Run, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(run, finished=2)
    played = Trajectory.objects.filter(run=run).first()
    assert played is not None
    report = write(who.owner, f"/t/{played.slug}")
    film = write(who.owner, f"/t/{played.slug}/prompt")
    monkeypatch.setattr(preview, "player_data", lambda trajectory: pytest.fail("its turns are loaded"))
    monkeypatch.setattr(filmstrip, "make_film", lambda *_: pytest.fail("its turns are loaded"))
    DRAWINGS.files.clear()
    with contextlib.ExitStack() as others:
        for _ in range(MAX_WAITING + 1):
            others.enter_context(DRAWINGS.place())
        for address in (
            f"/reports/{report.slug}/export/html",
            f"/reports/{film.slug}/export/html",
            f"/reports/{report.slug}/picture.png",
            f"/t/{played.slug}/film.png",
        ):
            assert who.viewer.get(address).status_code == 503


@pytest.mark.django_db(transaction=True)
def test_drawing_holds_no_connection(run: Run, who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    play(run, finished=2)
    played = Trajectory.objects.filter(run=run).first()
    assert played is not None
    report = write(who.owner, f"/t/{played.slug}\n/t/{played.slug}/prompt")
    held: list[bool] = []
    draw = DRAWINGS.draw

    def observed(key: str, make: Callable[[], bytes]) -> bytes:
        held.append(connection.connection is not None)
        data = draw(key, make)
        held.append(connection.connection is not None)
        return data

    monkeypatch.setattr(DRAWINGS, "draw", observed)
    DRAWINGS.files.clear()
    for address in ("export/html", "picture.png"):
        assert who.viewer.get(f"/reports/{report.slug}/{address}").status_code == 200
    assert held == [False] * 6


def test_embedded_players_show_marks_and_verdict(run: Run, who: Visitors) -> None:
    play(run, finished=2)
    played = Trajectory.objects.filter(run=run, status="failed").first()
    assert played is not None
    shown = who.viewer.get(f"/t/{played.slug}/embed").context["data"]
    assert shown["verdict"] is not None
    facts = player_data(played)
    assert (shown["marks"], shown["verdict"]) == (facts["marks"], facts["verdict"])


def test_the_preview_shows_what_the_writer_may_see(run: Run, who: Visitors, settings: Settings) -> None:
    text = who.owner.post("/reports/preview", {"body": f"**a**\n\n/runs/{run.slug}/"}).content.decode()
    assert "<strong>a</strong>" in text
    assert run.title in text
    other = who.outsider.post("/reports/preview", {"body": f"/runs/{run.slug}/"}).content.decode()
    assert "Not visible to you" in other
    settings.ECHOSCOPE_MAX_REPORT_CHARACTERS = 10
    assert who.owner.post("/reports/preview", {"body": 11 * "a"}).status_code == 422


def test_runs_and_trajectories_are_found_for_inserting(run: Run, who: Visitors) -> None:
    play(run, finished=2)
    text = who.owner.get("/reports/insert?q=trial").content.decode()
    assert f'data-put="/runs/{run.slug}/evaluation"' in text
    inside = who.owner.get(f"/reports/insert?run={run.slug}&q=solved").content.decode()
    assert 'data-put="/t/' in inside
    assert "failed" not in inside.split("<ul", 1)[1]
    assert who.outsider.get(f"/reports/insert?run={run.slug}").status_code == 404
    assert run.slug not in who.outsider.get("/reports/insert?q=trial").content.decode()
    slug = Trajectory.objects.filter(run=run, status="success").values_list("slug", flat=True)[0]
    assert f'data-put="/t/{slug}"' in who.owner.get(f"/reports/insert?q={slug}").content.decode()


def test_tags_of_another_team_select_nothing_in_its_open_run(run: Run, who: Visitors, people: People) -> None:
    play(run, finished=2)
    played = Trajectory.objects.filter(run=run, status="success")[0]
    do_tag(played, people.owner, "secret plan")
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    for query in (f"run={run.slug}&q=secret", "q=secret"):
        assert played.slug in who.viewer.get(f"/reports/insert?{query}").content.decode()
        assert played.slug not in who.outsider.get(f"/reports/insert?{query}").content.decode()
    assert played.slug in who.outsider.get(f"/reports/insert?run={run.slug}&q={played.slug}").content.decode()


def test_annotated_trajectories_are_found_in_few_queries(
    run: Run, who: Visitors, people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    play(run, finished=2)
    found = list(Trajectory.objects.filter(run=run, status__in=Trajectory.COUNTED)[:3])
    do_star(found[0], people.owner)
    do_tag(found[1], people.owner, "odd")
    do_tag(found[1], people.owner, "odder")
    with django_assert_num_queries(1):
        rows = insertable_trajectories(people.viewer, None, "")
        for one in rows:
            assert outcome_of(one)
            assert one.run.title
            assert one.group.environment
    assert [one.pk for one in rows] == sorted((found[0].pk, found[1].pk), reverse=True)


def test_a_report_keeps_trajectories_of_its_own_team_under_any_editor(run: Run, people: People) -> None:
    play(run, finished=3)
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.FINISHED, ended_at=now - timedelta(days=50), visibility=Run.Visibility.LINK
    )
    people.team.retention_days = 10
    people.team.save()
    kept = thinnable(now).first()
    assert kept is not None
    elsewhere = people.outsider.memberships.get().team
    foreign = do_create_report(elsewhere, people.outsider, "Theirs", f"/t/{kept.slug}", HOSTS)
    assert foreign.runs.get() == run, "it is mentioned"
    foreign.trajectories.set([kept])
    assert thinnable(now).filter(pk=kept.pk).exists(), "but not kept, even if an earlier version recorded it"
    own = do_create_report(people.team, people.owner, "Ours", f"/t/{kept.slug}", HOSTS)
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    do_edit_report(own, people.viewer, "Ours", f"Now:\n\n/t/{kept.slug}", 1, HOSTS)
    assert not thinnable(now).filter(pk=kept.pk).exists()
    assert own.runs.get() == run


def test_retention_keeps_embedded_trajectories(run: Run, people: People) -> None:
    play(run, finished=3)
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, ended_at=now - timedelta(days=50))
    people.team.retention_days = 10
    people.team.save()
    kept = thinnable(now).first()
    assert kept is not None
    do_create_report(people.team, people.owner, "Keep", f"/t/{kept.slug}", HOSTS)
    assert not thinnable(now).filter(pk=kept.pk).exists()
    assert thinnable(now).exists()
