"""Pages of a run: permissions, contents, query counts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, play, who
from webapp.live.snapshot import snapshot
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.trajectories.models import Trajectory

__all__ = ["who"]

TABS = ["", "trajectories", "curves", "evaluation", "configuration", "log"]


def test_every_tab_opens_before_the_first_turn(run: Run, who: Visitors) -> None:
    for tab in TABS:
        response = who.owner.get(f"/runs/{run.slug}/{tab}")
        assert response.status_code == 200, tab
        assert "Waiting for a free worker" in response.content.decode(), tab


def test_the_live_page_contains_the_snapshot_and_other_tabs_the_state_of_the_header(run: Run, who: Visitors) -> None:
    play(run, finished=1, playing_rounds=2)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    embedded = re.search(r'<script id="snapshot" type="application/json">(.*?)</script>', page, re.S)
    assert embedded is not None
    data = json.loads(embedded[1])
    assert data == json.loads(json.dumps(snapshot(run)))
    assert data["wall"]["groups"]
    assert data["stage"]["turns"]

    whole = data
    for tab in ("trajectories", "curves", "evaluation", "configuration"):
        page = who.owner.get(f"/runs/{run.slug}/{tab}").content.decode()
        embedded = re.search(r'<script id="snapshot" type="application/json">(.*?)</script>', page, re.S)
        assert embedded is not None
        data = json.loads(embedded[1])
        assert data.keys() == whole.keys()
        assert all(data[name] == whole[name] for name in ("seq", "attempt", "state", "run", "phase"))
        assert data["wall"] is None, "what only the live page draws is fetched by it alone"


def test_the_live_page_shows_the_progress_of_the_run(run: Run, who: Visitors) -> None:
    play(run, finished=1, playing_rounds=1)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert re.search(r"Iteration 2 of 4 · rollout \d of 4 trajectories", page)
    assert "5,310 tokens/s · CPU, 2 threads" in page


def test_a_failed_run_shows_why_and_what_to_do(run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, failure="The disk is full.", log_tail="OSError: 28")
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert "The disk is full." in page
    assert "OSError: 28" in page
    assert contains(page, "Resume continues from the last checkpoint")


def test_the_log_tab_shows_the_end_of_the_log(run: Run, who: Visitors) -> None:
    run.folder.mkdir(parents=True)
    RunFiles(run.folder).log.write_text("first line\n" + "x" * 100_000 + "\nlast line\n")
    page = who.owner.get(f"/runs/{run.slug}/log").content.decode()
    assert "last line" in page
    assert "first line" not in page


def test_the_configuration_can_be_downloaded_and_rerun(run: Run, who: Visitors, tmp_path: Path) -> None:
    from trainer.config.files import load_yaml
    from trainer.config.run import RunConfig

    response = who.viewer.get(f"/runs/{run.slug}/configuration?download=1")
    file = tmp_path / "config.yaml"
    file.write_bytes(response.content)
    assert load_yaml(file).model_dump(mode="json") == run.config
    names = list(RunConfig.model_fields)
    written = [line.partition(":")[0] for line in response.content.decode().splitlines() if line[0].isalpha()]
    assert written == [name for name in names if name in written], "in the order of the form, not of the database"


@pytest.mark.parametrize("count", [1, 12])
def test_the_query_count_of_the_live_page_is_constant(
    count: int, run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    play(run, finished=count)
    with django_assert_max_num_queries(24):
        who.owner.get(f"/runs/{run.slug}/")


@pytest.mark.parametrize(
    ("before", "wish", "after"),
    [
        ("queued", "pause", "paused"),
        ("queued", "cancel", "cancelled"),
        ("paused", "resume", "queued"),
        ("failed", "resume", "queued"),
        ("paused", "stop", "stopped"),
    ],
)
def test_members_control_a_run(before: str, wish: str, after: str, run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(state=before)
    response = who.owner.post(f"/runs/{run.slug}/{wish}", follow=True)
    run.refresh_from_db()
    assert run.state == after
    assert 'class="note success"' in response.content.decode()


def test_unavailable_actions_are_explained(run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    page = who.owner.post(f"/runs/{run.slug}/pause", follow=True).content.decode()
    assert "This run is finished: it cannot pause now." in page


def test_a_viewer_sees_no_control_buttons(run: Run, who: Visitors) -> None:
    assert contains(who.owner.get(f"/runs/{run.slug}/").content.decode(), ">Pause</button>")
    page = who.viewer.get(f"/runs/{run.slug}/").content.decode()
    assert not contains(page, ">Pause</button>")
    assert "Clone" not in page


def test_a_trajectory_is_found_by_its_id_in_the_journal(run: Run, who: Visitors) -> None:
    play(run)
    one = Trajectory.objects.filter(run=run).first()
    assert one is not None
    assert who.viewer.get(f"/runs/{run.slug}/t/{one.key}")["Location"] == f"/t/{one.slug}"
    page = who.owner.get(f"/runs/{run.slug}/t/none-such", follow=True).content.decode()
    assert "This run has no attempt none-such." in page


def test_every_environment_of_a_run_is_shown_with_its_rules(who: Visitors) -> None:
    import envs

    page = who.outsider.get("/environments").content.decode()
    for name in envs.names():
        assert f'id="{name}"' in page
    assert who.anonymous.get("/environments").status_code == 302


def test_pages_have_no_inline_script_or_style_and_no_external_url(run: Run, who: Visitors) -> None:
    play(run, playing_rounds=1)
    trajectory = Trajectory.objects.filter(run=run).first()
    assert trajectory is not None
    for address in ["/", "/runs/new", f"/runs/{run.slug}/", f"/t/{trajectory.slug}", "/environments", "/workers"]:
        page = who.owner.get(address).content.decode()
        assert not re.search(r"<script(?![^>]*(src=|application/json))", page), address
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page), address
        assert not re.search(r'(src|href)="(https?:)?//', page.replace("http://testserver", "")), address
