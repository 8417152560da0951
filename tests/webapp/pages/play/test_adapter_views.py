"""Variants of an adapter on the pages of environments and in the command palette: listed, found, played by their id."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.http import HttpResponse
from pytest_django import Settings

import envs
from envs import registry
from tests.envs.adapters.openenv_server import GuessServer, serving
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, play, who
from webapp.runs.models import Run
from webapp.trajectories.models import Group, Trajectory

__all__ = ["who"]

TAXI = next(variant for variant in envs.variants("Gymnasium") if variant.startswith("Taxi-"))
HTMX = {"HX-Request": "true"}


def text_of(response: HttpResponse) -> str:
    assert response.status_code == 200, response
    return html.unescape(response.content.decode())


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="play-data" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None, page
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_list_has_one_entry_with_all_variants(who: Visitors) -> None:
    page = text_of(who.viewer.get("/environments"))
    assert page.count('id="Gymnasium"') == 1
    for variant in envs.variants("Gymnasium"):
        assert f'href="/environments/Gymnasium?id={variant}"' in page


def test_an_adapter_without_its_package_names_the_extra_to_install(
    who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "is_installed", lambda name: name == "Gymnasium")
    page = text_of(who.viewer.get("/environments"))
    assert "pip install reasoning-gym" in page
    assert "pip install '.[textarena]'" in page
    assert who.owner.get("/environments/TextArena").status_code == 404
    page = text_of(who.owner.get("/runs/new?environment=TextArena"))
    assert "TextArena needs the package textarena" in page


def test_an_adapter_without_a_default_variant_names_the_missing_setting(who: Visitors) -> None:
    for address in ("/environments", "/environments/OpenEnv", "/environments/OpenEnv?id=http://169.254.169.254"):
        page = text_of(who.viewer.get(address))
        assert "OpenEnv has no default variant: set id in its settings to the address of an OpenEnv server" in page
        assert "It cannot be shown" not in page
    page = text_of(who.owner.get("/runs/new?environment=OpenEnv"))
    assert "OpenEnv has no default variant" in page
    assert who.owner.post("/environments/OpenEnv/play", {"action": "x"}).status_code == 404


def test_a_game_is_played_at_a_server_that_the_operator_lists(
    who: Visitors, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with serving(GuessServer()) as address:
        monkeypatch.setenv("ECHOSCOPE_OPENENV_URLS", address)
        settings.ECHOSCOPE_OPENENV_URLS = [address]
        assert address in text_of(who.viewer.get("/environments/OpenEnv"))
        chosen = f"/environments/OpenEnv?id={quote(address, safe='')}"
        page = text_of(who.owner.get(f"{chosen}&seed=7"))
        assert "<h1>Guess (OpenEnv)</h1>" in page
        assert data_of(page)["board"] == {"kind": "text", "text": "Guess a number below 10."}
        fields = {"id": address, "seed": "7", "at": "0", "typed": "99"}
        after = data_of(text_of(who.owner.post("/environments/OpenEnv/play", fields, headers=HTMX)))
        assert after["board"]["text"] == "Lower."
        assert chosen in str(who.owner.get(f"/palette.json?q={address[-5:]}").json())
        other = who.owner.get("/environments/OpenEnv?id=http://127.0.0.1:9", follow=True)
        assert other.redirect_chain[-1][0] == "/environments"
        assert "OpenEnv has no 'http://127.0.0.1:9'" in text_of(other)


def test_a_server_that_is_back_is_shown_without_a_restart(
    who: Visitors, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    game = GuessServer()
    with serving(game) as address:
        pass
    monkeypatch.setenv("ECHOSCOPE_OPENENV_URLS", address)
    settings.ECHOSCOPE_OPENENV_URLS = [address]
    chosen = f"/environments/OpenEnv?id={quote(address, safe='')}"
    away = who.owner.get(chosen)
    assert away.status_code == 503
    assert "cannot be reached: Connection refused" in html.unescape(away.content.decode())
    with serving(game, int(address.rpartition(":")[2])):
        assert "<h1>Guess (OpenEnv)</h1>" in text_of(who.owner.get(chosen))


def test_a_variant_has_a_page_with_its_rules_and_budgets(who: Visitors) -> None:
    spec = envs.spec("Gymnasium", {"id": TAXI})
    page = text_of(who.viewer.get(f"/environments/Gymnasium?id={TAXI}"))
    assert f"<h1>{spec.title}</h1>" in page
    assert spec.instruction in page
    contains(page, f"0 of {spec.max_actions}")
    assert f"environment: {{name: Gymnasium, settings: {{id: {TAXI}}}}}" in page
    assert f"/runs/new?environment=Gymnasium&id={TAXI}" in text_of(who.owner.get(f"/environments/Gymnasium?id={TAXI}"))


def test_a_game_in_a_variant_is_that_of_the_package(who: Visitors) -> None:
    env = envs.make("Gymnasium", {"id": TAXI})
    env.reset(seed=7)
    for number, action in enumerate(["North", "East", "Pickup"]):
        fields = {"id": TAXI, "seed": "7", "at": str(number), "action": action}
        page = text_of(who.owner.post("/environments/Gymnasium/play", fields, headers=HTMX))
        env.step(action)
        assert data_of(page)["board"] == env.board().model_dump(exclude_none=True)
        assert data_of(page)["taken"] == number + 1
    assert f'name="id" value="{TAXI}"' in page
    assert re.search(rf"\?id={TAXI}&prompt=\d+", page), "another puzzle of the same variant"
    again = text_of(who.owner.get(f"/environments/Gymnasium?id={TAXI}"))
    assert data_of(again)["taken"] == 3, "the newest game of that variant"
    other = text_of(who.owner.get("/environments/Gymnasium?id=FrozenLake-v1"))
    assert data_of(other)["taken"] == 0
    assert data_of(text_of(who.owner.get("/environments/Gymnasium")))["taken"] == 3


def test_a_game_without_scripts_returns_to_its_variant(who: Visitors) -> None:
    answer = who.owner.post("/environments/Gymnasium/play", {"id": TAXI, "seed": "7", "action": "North"})
    assert answer["Location"] == f"/environments/Gymnasium?id={TAXI}&seed=7#game"


def test_an_unknown_variant_is_refused_with_near_matches(who: Visitors) -> None:
    answer = who.owner.get("/environments/Gymnasium?id=Taxi-v0", follow=True)
    assert answer.redirect_chain[-1][0] == "/environments"
    assert f"did you mean {TAXI}" in text_of(answer)
    assert who.owner.post("/environments/Gymnasium/play", {"id": "Taxi-v0", "action": "x"}).status_code == 404
    assert who.owner.get("/environments/Gymnasium?id=FrozenLake-v1&seed=x", follow=True).redirect_chain == [
        ("/environments/Gymnasium?id=FrozenLake-v1", 302)
    ]


def test_a_saved_game_of_a_variant_that_is_gone_gives_way(who: Visitors) -> None:
    session = who.owner.session
    session["games"] = {"Gymnasium?id=gone%2FWalk-v0&seed=7": {"actions": [], "hints": 0, "hint_at": -1}}
    session.save()
    page = text_of(who.owner.get("/environments/Gymnasium"))
    assert "FrozenLake-v1 (Gymnasium)" in page
    assert "has no 'gone/Walk-v0'" in page


def test_the_start_of_a_trajectory_is_in_the_variant_of_its_run(run: Run, who: Visitors) -> None:
    play(run)
    trajectory = Trajectory.objects.filter(run=run).first()
    assert trajectory is not None
    config = run.config | {"environment": {"name": "Gymnasium", "settings": {"id": TAXI}}}
    Run.objects.filter(pk=run.pk).update(config=config, environment="Gymnasium")
    Group.objects.filter(run=run).update(environment="Gymnasium")
    page = text_of(who.owner.get(f"/environments/Gymnasium?of={trajectory.slug}"))
    assert f"<h1>{TAXI} (Gymnasium)</h1>" in page
    assert who.outsider.get(f"/environments/Gymnasium?of={trajectory.slug}").status_code == 404


def test_the_palette_finds_variants(who: Visitors) -> None:
    groups = who.owner.get("/palette.json?q=taxi").json()["groups"]
    (items,) = [group["items"] for group in groups if group["title"] == "Environments"]
    expected = {"title": TAXI, "detail": "Variant of Gymnasium", "href": f"/environments/Gymnasium?id={TAXI}"}
    assert expected in items
    groups = who.owner.get("/palette.json?q=gymnasium").json()["groups"]
    (items,) = [group["items"] for group in groups if group["title"] == "Environments"]
    assert items[0] == {"title": "Gymnasium", "detail": "Environment", "href": "/environments/Gymnasium"}
