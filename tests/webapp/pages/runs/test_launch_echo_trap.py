"""The click that trains the recorded Echo Trap live: two runs, once for each user, for those who may launch."""

from __future__ import annotations

from tests.webapp.page_requests import Visitors, who
from trainer.config.files import load_preset
from webapp.pages.runs.launch_views import ECHO_TRAP_PRESET as PRESET
from webapp.runs.models import Run

__all__ = ["who"]
ADDRESS = "/runs/echo-trap"


def test_one_click_launches_both_arms_and_opens_the_one_that_collapses(who: Visitors) -> None:
    response = who.owner.post(ADDRESS)
    collapsing, stable = Run.objects.order_by("pk")
    assert response.headers["Location"] == f"/runs/{collapsing.slug}/"
    assert collapsing.preset == PRESET
    assert stable.preset == PRESET.replace("starpo", "starpo_s")
    assert collapsing.group == stable.group == "Echo Trap"
    assert collapsing.config["algorithm"]["group_filter"] == "none"
    assert stable.config["algorithm"]["group_filter"] == "std"
    assert collapsing.config["optimizer"] == load_preset(PRESET).model_dump(mode="json")["optimizer"]


def test_a_second_click_opens_the_same_run(who: Visitors) -> None:
    first, second = who.owner.post(ADDRESS), who.owner.post(ADDRESS, follow=False)
    assert first.headers["Location"] == second.headers["Location"]
    assert Run.objects.count() == 2
    assert "launched before" in who.owner.get(second.headers["Location"]).content.decode()


def test_only_those_who_may_launch_runs_may_click(who: Visitors) -> None:
    assert who.viewer.post(ADDRESS).status_code == 403
    assert who.anonymous.post(ADDRESS).headers["Location"].startswith("/login")
    assert who.owner.get(ADDRESS).status_code == 405
    assert not Run.objects.exists()
    assert f'action="{ADDRESS}"' in who.owner.get("/echo-trap").content.decode()
    assert ADDRESS not in who.viewer.get("/echo-trap").content.decode()


def test_the_recording_is_found_on_the_list_and_in_the_details_of_the_watch(run: Run, who: Visitors) -> None:
    for page in ("/", f"/runs/{run.slug}/"):
        assert 'href="/echo-trap"' in who.viewer.get(page).content.decode()
    assert 'href="/echo-trap"' in who.anonymous.get("/login").content.decode()


def test_another_user_gets_runs_of_their_own_team(who: Visitors) -> None:
    who.owner.post(ADDRESS)
    who.outsider.post(ADDRESS)
    assert Run.objects.count() == 4
    assert Run.objects.values("team").distinct().count() == 2
