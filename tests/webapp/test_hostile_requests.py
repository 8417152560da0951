"""Input that once failed with a server error gets an answer that says what is wrong."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.core import mail
from django.test import Client
from pytest_django import Settings

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from trainer.journal import events as journal
from webapp.core.middleware.nul import in_json
from webapp.ingest.tailer import JournalTailer
from webapp.runs.launch import plain_yaml
from webapp.runs.models import MetricPoint, Run
from webapp.teams.first_login import link
from webapp.teams.models import Team
from webapp.trajectories.models import Group, Trajectory

__all__ = ["who"]


@pytest.fixture
def played(run: Run, tmp_path: Path) -> Run:
    journal_builder.write(tmp_path / "run", *journal_builder.whole_run(1))
    JournalTailer(run, tmp_path / "run").drain()
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    run.refresh_from_db()
    return run


class TestNul:
    @pytest.mark.parametrize(
        "address",
        [
            "/?text=%00",
            "/?%00=a",
            "/compare?runs=%00",
            "/runs/RUN/curves.json?names=a%00",
            "/runs/RUN/t/%00",
            "/environments/Sokoban?of=%00",
            "/runs/new?clone=%00",
        ],
    )
    def test_in_path_or_query(self, address: str, played: Run, who: Visitors) -> None:
        response = who.owner.get(address.replace("RUN", played.slug))
        assert response.status_code == 400
        assert "NUL character" in response.content.decode()

    def test_in_a_form(self, who: Visitors) -> None:
        for content_type in ({}, {"content_type": "application/x-www-form-urlencoded"}):
            data: Any = {"name": "a\0b"} if not content_type else "name=a%00b"
            assert who.owner.post("/team/new", data, **content_type).status_code == 400
        assert not Team.objects.filter(name__startswith="a").exclude(name="Agents").exists()

    def test_in_a_cookie(self, db: None) -> None:
        client = Client()
        client.cookies["echoscope_session"] = "abcdefgh\0ijkl"
        assert client.get("/login").status_code == 400

    def test_in_json(self, people: People, who: Visitors) -> None:
        body = {"config": {"hosted": {"extra_body": {"a": ["\0"]}}}}
        response = who.owner.post("/api/runs", body, content_type="application/json")
        assert response.status_code == 400
        assert "NUL character" in response.json()["error"]["message"]
        assert who.owner.get("/api/runs?cursor=%00").json()["error"]["code"] == "unreadable"
        assert in_json({"a\0": 1})
        assert not in_json({"a": ["\\u0000", 1, None]})


class TestRedirects:
    def test_a_word_is_no_place_to_go_after_login(self, people: People, who: Visitors) -> None:
        assert who.owner.post(link(people.owner, "foo"))["Location"] == "/"
        assert Client().post(link(people.owner, "foo"))["Location"] == "/"

    def test_a_word_is_no_place_to_go_after_a_change(self, run: Run, who: Visitors) -> None:
        response = who.owner.post(f"/runs/{run.slug}/visibility", {"visibility": "link", "next": "foo"})
        assert (response.status_code, response["Location"]) == (302, f"/runs/{run.slug}/")


class TestAnotherVersion:
    @pytest.fixture
    def foreign(self, played: Run) -> Run:
        played.config["rollout"]["warp"] = 9
        played.config["environment"]["name"] = "Atlantis"
        played.save()
        return played

    def test_its_run_is_not_cloned_but_explained(self, foreign: Run, who: Visitors) -> None:
        for response in (
            who.owner.get(f"/runs/new?clone={foreign.slug}"),
            who.owner.post("/runs/new/check", {"clone": foreign.slug}),
            who.owner.post("/runs/new/yaml", {"clone": foreign.slug, "yaml": "iterations: 3"}),
        ):
            assert response.status_code == 409
            page = response.content.decode()
            assert "rollout.warp" in page
            assert f"/runs/{foreign.slug}/configuration?download=1" in page

    def test_its_states_are_not_played(self, foreign: Run, who: Visitors) -> None:
        slug = Trajectory.objects.filter(run=foreign)[0].slug
        assert who.owner.get(f"/environments/Sokoban?of={slug}").status_code < 500

    def test_its_metrics_are_listed(self, foreign: Run, who: Visitors) -> None:
        MetricPoint.objects.create(run=foreign, name="warp/speed", iteration=1, value=9.0, tokens=1, seconds=1.0)
        metrics = {row["name"]: row for row in who.owner.get(f"/api/runs/{foreign.slug}/metrics").json()}
        assert metrics["warp/speed"]["meaning"].endswith("Echoscope has no description of it.")

    def test_its_environment_may_have_a_slash(self, foreign: Run, who: Visitors) -> None:
        Group.objects.filter(run=foreign).update(environment="a/b")
        page = who.owner.get(f"/t/{Trajectory.objects.filter(run=foreign)[0].slug}")
        assert page.status_code == 200
        assert "Play it yourself" not in page.content.decode()


class TestImports:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda event: event.update(time=9_007_199_254_740_992), "line 1 has the time"),
            (lambda event: event.update(parameters=10**30), "number in parameters"),
            (lambda event: event["config"].update(seed="7" * 5000), "seed"),
            (lambda event: event["config"].update(extra="x" * 200_000), "at most 131,072"),
        ],
    )
    def test_a_start_that_cannot_be_stored(self, change: Any, words: str, who: Visitors) -> None:
        event = json.loads(journal_builder.started().model_copy(update={"seq": 1, "time": 1.0}).model_dump_json())
        change(event)
        response = who.owner.post("/api/runs/import", json.dumps(event) + "\n", content_type="application/x-ndjson")
        assert response.status_code == 422
        assert words in response.json()["error"]["message"]
        assert not Run.objects.exists()

    def test_a_time_that_is_none(self, who: Visitors) -> None:
        event = journal_builder.started().model_copy(update={"seq": 1, "time": 1.5}).model_dump_json()
        body = event.replace('"time":1.5', '"time":NaN') + "\n"
        response = who.owner.post("/api/runs/import", body, content_type="application/x-ndjson")
        assert response.status_code == 422

    def test_rewards_beyond_64_bits_are_exported(self, run: Run, tmp_path: Path, who: Visitors) -> None:
        turn = journal_builder.turn("a", 0).model_copy(update={"reward": 1e40, "terms": {"environment": 1e40}})
        journal_builder.write(tmp_path / "run", journal_builder.started(), journal_builder.group(1, 0, ["a"]), turn)
        JournalTailer(run, tmp_path / "run").drain()
        data = b"".join(who.owner.get(f"/runs/{run.slug}/export/parquet").streaming_content)  # type: ignore[attr-defined]
        [row] = pq.read_table(io.BytesIO(data)).to_pylist()
        assert row["turns"][0]["reward"] == 1e40
        assert row["turns"][0]["terms"] == [("environment", 1e40)]


def test_a_form_is_no_body_of_the_api(people: People) -> None:
    client = Client(enforce_csrf_checks=True)  # that check reads the form
    client.force_login(people.owner)
    client.cookies["csrftoken"] = "a" * 32
    response = client.post("/api/runs", {"preset": "x"}, headers={"X-CSRFToken": "a" * 32})
    assert response.status_code == 415
    assert "application/json" in response.json()["error"]["message"]


def test_a_team_has_a_name_of_one_line(people: People, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    who.owner.post("/team/new", {"name": "Red\r\nTeam"})
    team = Team.objects.get(name="Red Team")
    Team.objects.filter(pk=team.pk).update(name="Red\nTeam")  # of an earlier version
    who.owner.post(f"/team/{team.slug}/invitations", {"email": "new@example.org", "role": "viewer"})
    assert [message.subject for message in mail.outbox] == ["Echoscope: join Red Team"]


class TestYaml:
    def test_plain_data_is_read(self) -> None:
        assert plain_yaml.load("a: [1, {b: 2.5}]\nc: |\n  text\n") == {"a": [1, {"b": 2.5}], "c": "text\n"}

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[" * 2000, "more than 50 levels"),
            ("a: " + "[" * 49 + "]" * 49 + "\nb: " + "{a: " * 51 + "1" + "}" * 51, "more than 50 levels"),
            ("a: &x [1]\nb: *x\n", "&name and *name"),
            ("a: *x\n", "&name and *name"),
            ("a: {", "not valid YAML"),
            ("a: " + "1" * 5000, "digits"),
            (" " * 200_001, "longer than 200,000"),
            (r'a: ["x\0"]', "NUL character"),
        ],
    )
    def test_what_multiplies_or_nests_is_refused(self, text: str, words: str) -> None:
        with pytest.raises(ValueError, match=words.replace("*", r"\*")):
            plain_yaml.load(text)

    def test_the_form_explains_it(self, who: Visitors) -> None:
        bomb = "a: &a [1, 1]\nb: &b [*a, *a]\nhosted: {extra_body: {x: *b}}\n"
        for text in (bomb, "[" * 2000):
            response = who.owner.post("/runs/new/yaml", {"yaml": text})
            assert response.status_code == 422
            assert "not valid YAML" in response.content.decode()

    def test_a_page_lists_the_first_problems(self, who: Visitors) -> None:
        text = "\n".join(f"k{number}: 1" for number in range(20_000))
        response = who.owner.post("/runs/new/yaml", {"yaml": text})
        listed = re.search(r'<ul class="errorlist" role="alert"[^>]*>(.*?)</ul>', response.content.decode(), re.S)
        assert listed is not None
        problems = re.findall("<li>(.*?)</li>", listed[1])
        assert problems[0] == "k0: there is no setting of this name"
        assert problems[-1] == "There are 19,980 further problems."

    def test_extra_fields_of_requests_are_few(self, who: Visitors) -> None:
        many = "hosted: {extra_body: {" + ", ".join(f"k{number}: 1" for number in range(21)) + "}}"
        long = "hosted: {extra_body: {k: " + "x" * 5000 + "}}"
        for text, words in ((many, "at most 20"), (long, "at most 4,096")):
            response = who.owner.post("/runs/new/yaml", {"yaml": text})
            assert response.status_code == 422
            assert words in response.content.decode()


def test_csv_cells_are_no_formulas(played: Run, who: Visitors) -> None:
    for name in ("=HYPERLINK(1)", "@SUM(1)", "|calc"):
        MetricPoint.objects.create(run=played, name=name, iteration=1, value=9.0, tokens=1, seconds=1.0)
    exported = b"".join(who.owner.get(f"/runs/{played.slug}/export/metrics.csv").streaming_content).decode()  # type: ignore[attr-defined]
    curves = who.owner.get(f"/runs/{played.slug}/curves.csv").content.decode()
    for text in (exported, curves):
        assert "'=HYPERLINK(1)" in text
        for name in ("=HYPERLINK", "@SUM", "|calc"):
            assert f"\n{name}" not in text
            assert f",{name}" not in text


def test_notices_of_a_hostile_import_make_no_large_page(run: Run, tmp_path: Path, who: Visitors) -> None:
    notices = [journal.Notice(level="info", message=f"{number}" * 900_000) for number in range(8)]
    journal_builder.write(tmp_path / "run", journal_builder.started(), *notices)
    JournalTailer(run, tmp_path / "run").drain()
    assert len(who.owner.get(f"/runs/{run.slug}").content) < 300_000
