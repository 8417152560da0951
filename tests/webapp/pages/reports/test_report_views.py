"""Reports in the browser's view: writing, embeds by what the reader may see, versions, sharing, deletion."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp.conftest import People
from tests.webapp.core.test_output_budget import EMPTY_CELLS
from tests.webapp.page_requests import Visitors, assert_private, play, who
from webapp.core.soft_delete import do_purge
from webapp.operations.retention import thinnable
from webapp.reports.actions import do_create_report, do_edit_report
from webapp.reports.models import Report
from webapp.runs.models import Evaluation, Run
from webapp.teams.models import Removal
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import player_data

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
    for part in ("", "/edit", "/history", "/history/1"):
        assert_private(f"/reports/{report.slug}{part}", who)
    for part in ("/edit", "/delete", "/history/1/restore"):
        assert_private(f"/reports/{report.slug}{part}", who, post=True)
        assert who.viewer.post(f"/reports/{report.slug}{part}").status_code == 403
    assert who.viewer.get("/reports/new").status_code == 403
    assert who.viewer.post("/reports/preview", {"body": "a"}).status_code == 403


def test_embeds_show_runs_curves_player_and_film(run: Run, who: Visitors) -> None:
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
    assert text.count("report-embed") == 5, "run and evaluation are one table"
    assert f'src="/t/{played.slug}/film.png"' in text
    assert f'src="/t/{played.slug}/embed?turn=1&amp;action=1"' in text
    assert "<figcaption>Reward</figcaption>" in text
    assert "<polyline points=" in text
    assert "1 run not visible to you" in text
    frame = who.viewer.get(f"/t/{played.slug}/embed?turn=1")
    assert frame["X-Frame-Options"] == "SAMEORIGIN"
    assert "frame-ancestors 'self'" in frame["Content-Security-Policy"]
    assert f"/reports/{report.slug}" in who.viewer.get(f"/runs/{run.slug}/").content.decode()
    assert f"/reports/{report.slug}" not in who.outsider.get(f"/runs/{run.slug}/").content.decode()


def test_a_table_shows_the_last_evaluation_and_the_change_since_the_first(run: Run, who: Visitors) -> None:
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
    assert '<b>50.0%</b> <span class="soft small">37.5% to 62.5%</span>' in text
    assert "64 puzzles of Sokoban" in text
    assert ">+25.0<" in text
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
    assert f'href="/reports/{report.slug}/history/2"' in text, "and the first can be read"
    assert "data-unsaved" in text, "leaving the page asks first"
    assert "data-unsaved" not in who.owner.get(path).content.decode()
    report.refresh_from_db()
    assert report.body == "Ada's words."
    version = re.search(r'name="version" value="(\d+)"', text)
    assert version is not None
    assert who.owner.post(path, late | {"version": version[1]}).status_code == 302
    assert [revision.body for revision in report.revisions.all()] == ["Other words.", "Ada's words.", "Some *words*."]
    assert who.owner.post(path, late | {"version": "1"}).status_code == 302, "the same text again is no conflict"


def test_versions_are_kept_and_restored(report: Report, who: Visitors) -> None:
    who.owner.post(f"/reports/{report.slug}/edit", {"title": "Renamed", "body": "Better.", "version": "1"})
    assert "ada" in who.viewer.get(f"/reports/{report.slug}/history").content.decode()
    text = who.viewer.get(f"/reports/{report.slug}/history/1").content.decode()
    assert "<h1>What broke</h1>" in text
    assert "Some <em>words</em>." in text
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
        ({"body": "/t/a\n" * 3}, "at most 2 embeds"),
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


def test_deleted_reports_count_until_they_are_gone(report: Report, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REPORTS_PER_TEAM = 1
    who.owner.post(f"/reports/{report.slug}/delete")
    refused = who.owner.post("/reports/new", {"title": "T", "body": "", "visibility": "team"})
    assert refused.status_code == 422
    assert "Deleted ones count until" in refused.content.decode()
    do_purge(timezone.now() + timedelta(days=30))
    write(who.owner, "")


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


def test_a_shared_report_has_a_preview_and_a_public_one_may_be_indexed(report: Report, who: Visitors) -> None:
    form = {"title": report.title, "body": report.body, "version": "1"}
    who.owner.post(f"/reports/{report.slug}/edit", form | {"visibility": "link"})
    response = who.anonymous.get(f"/reports/{report.slug}")
    assert "noindex" in response["X-Robots-Tag"]
    assert '<meta property="og:description" content="Some words.">' in response.content.decode()
    who.owner.post(f"/reports/{report.slug}/edit", form | {"visibility": "public"})
    response = who.anonymous.get(f"/reports/{report.slug}")
    assert response["X-Robots-Tag"] == "all"
    assert "/history" not in response.content.decode()
    assert who.anonymous.get(f"/reports/{report.slug}/history").status_code == 302
    assert report.revisions.count() == 1, "who may read it is not a version"


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
    do_edit_report(own, people.viewer, "Ours", f"Now:\n\n/t/{kept.slug}", HOSTS, version=1)
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


def test_no_text_becomes_a_page_of_many_megabytes(run: Run, who: Visitors) -> None:
    body = EMPTY_CELLS[:50_000]
    report = write(who.owner, body, visibility="public")
    Run.objects.filter(pk=run.pk).update(notes=body, visibility=Run.Visibility.LINK)
    for client, address in [
        (Client(), f"/reports/{report.slug}"),
        (Client(), f"/runs/{run.slug}/"),
        (who.owner, f"/reports/{report.slug}/edit"),
        (who.viewer, f"/reports/{report.slug}/history/1"),
    ]:
        began = time.process_time()
        response = client.get(address)
        assert response.status_code == 200
        assert len(response.content) < 600_000, address
        assert time.process_time() - began < 5, address
    assert len(who.owner.post("/reports/preview", {"body": body}).content) < 600_000
