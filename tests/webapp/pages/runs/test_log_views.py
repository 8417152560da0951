"""Log tab: lines of the journal, the trainer's output, what came since, download; for the team only."""

from __future__ import annotations

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.webapp.page_requests import Visitors, play, who
from webapp.ingest.rebuild import do_rebuild
from webapp.pages.runs import log_views
from webapp.pages.runs.log_views import MAX_OUTPUT_BYTES
from webapp.runs.models import Alarm, LogLine, Run

pytestmark = pytest.mark.django_db
__all__ = ["who"]


def write_output(run: Run, text: str) -> None:
    run.folder.mkdir(parents=True, exist_ok=True)
    with (run.folder / "log.txt").open("a") as file:
        file.write(text)


def test_the_log_lists_what_the_trainer_did_in_order(run: Run, who: Visitors) -> None:
    play(run, finished=2)
    messages = list(run.log_lines.values_list("message", flat=True))
    assert messages[0].startswith("Attempt 1 started on ")
    order = ["Iteration 1: rollout", "Iteration 1: rollout done", "Iteration 1 done", "Iteration 2: rollout"]
    places = [next(at for at, text in enumerate(messages) if text.startswith(start)) for start in order]
    assert places == sorted(places), messages
    page = who.viewer.get(f"/runs/{run.slug}/log").content.decode()
    assert "Iteration 2 done" in page
    do_rebuild(Run.objects.get(pk=run.pk))
    assert list(run.log_lines.values_list("message", flat=True)) == messages


def test_an_open_page_gets_what_came_since(run: Run, who: Visitors) -> None:
    play(run)
    write_output(run, "first\n")
    lines = list(run.log_lines.values_list("seq", flat=True))
    first = who.owner.get(f"/runs/{run.slug}/log.json?after={lines[-2]}").json()
    assert [line["seq"] for line in first["lines"]] == lines[-1:]
    assert first["output"] == {"text": "first\n", "offset": 6, "skipped": False}
    write_output(run, "second <b>\n")
    again = who.owner.get(f"/runs/{run.slug}/log.json?after={lines[-1]}&offset=6").json()
    assert again["lines"] == []
    assert again["output"] == {"text": "second <b>\n", "offset": 17, "skipped": False}
    assert "second &lt;b&gt;" in who.owner.get(f"/runs/{run.slug}/log").content.decode()
    for wrong in ("after=x&offset=-1", f"after={'9' * 30}&offset={'9' * 15}"):
        assert who.owner.get(f"/runs/{run.slug}/log.json?{wrong}").status_code == 200


def test_only_the_end_of_a_long_output_is_shown_and_all_is_downloaded(run: Run, who: Visitors) -> None:
    play(run)
    write_output(run, "the very first line\n" + "x" * 99 + "\n" + "line\n" * MAX_OUTPUT_BYTES)
    output = who.owner.get(f"/runs/{run.slug}/log.json").json()["output"]
    assert output["skipped"]
    assert set(output["text"].splitlines()) == {"line"}
    whole = b"".join(who.owner.get(f"/runs/{run.slug}/log.txt").streaming_content).decode()  # type: ignore[attr-defined]
    assert "the very first line" in whole
    assert "Iteration 1 done" in whole


def test_queries_are_bounded(run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    play(run, finished=3)
    with django_assert_max_num_queries(6):
        who.owner.get(f"/runs/{run.slug}/log.json")


def test_no_connection_is_held_while_the_log_is_sent(run: Run, who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    play(run)
    write_output(run, "line\n")
    released: list[int] = []
    monkeypatch.setattr(log_views, "release_connection", lambda: released.append(1))
    for sent, _ in enumerate(log_views._whole(run), start=1):
        assert len(released) == sent
    assert released


def test_events_read_before_lines_were_kept_are_shown_above_the_lines(
    run: Run, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(run, finished=2)
    run.log_lines.all().delete()
    now = timezone.now()
    run.log_lines.bulk_create(LogLine(run=run, seq=seq, message=f"Line {seq}.", time=now) for seq in (50, 51, 52))
    for seq in (49, 51):
        run.notices.create(seq=seq, level="info", message=f"Notice {seq}.", time=now)
        Alarm.objects.create(run=run, seq=seq, iteration=1, state="watch", message=f"Alarm {seq}.", time=now)
    for limit in (500, 2):
        monkeypatch.setattr(log_views, "MAX_LINES", limit)
        page = who.viewer.get(f"/runs/{run.slug}/log").content.decode().partition('id="snapshot"')[0]
        assert "Line 52." in page
        assert "Notice 49." in page
        assert "Alarm 49." in page
        assert "Notice 51." not in page
        assert "Alarm 51." not in page
