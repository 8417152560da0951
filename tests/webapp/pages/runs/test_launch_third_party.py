"""The environment of an installed package appears in the launch form with its settings and can be launched."""

from __future__ import annotations

import html
from collections.abc import Iterator

import pytest

from tests.envs.plugins import importable, install_example
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from webapp.runs.models import Run

__all__ = ["who"]


@pytest.fixture(autouse=True, scope="module")
def _key_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with importable(install_example(tmp_path_factory.mktemp("pip"))):
        yield


def test_the_form_offers_it_with_its_settings_and_launches_it(who: Visitors) -> None:
    page = who.owner.get("/runs/new").content.decode()
    assert contains(page, ">KeyDoor</option>")
    part = html.unescape(who.owner.get("/runs/new/environment?environment.name=KeyDoor").content.decode())
    assert 'name="environment.settings.lava"' in part
    assert "Cells along each side of the room, walls included (at least 5, at most 12)." in part
    fields = fields_of(page) | {"environment.name": "KeyDoor", "environment.settings.lava": "5"}
    who.owner.post("/runs/new", fields)
    assert Run.objects.get().config["environment"]["name"] == "KeyDoor"
    assert Run.objects.get().config["environment"]["settings"] == {"lava": 5}


def test_its_limits_apply_in_the_form(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode())
    wrong = fields | {"environment.name": "KeyDoor", "environment.settings.size": "99"}
    page = who.owner.post("/runs/new/check", wrong).content.decode()
    assert contains(page, '"f-environment-settings-size": "must be at most 12"')
