"""Pictures of the environments on the launch page: the environments' own, and made without loading a catalogue."""

from __future__ import annotations

import pytest
from django.urls import reverse

from envs.webshop import catalogue_files, generated
from envs.webshop.webshop_env import VARIABLE
from tests.webapp.page_requests import Visitors, who
from webapp.play import environment_info
from webapp.play.environment_info import sample
from webapp.play.launch_pictures import STORED

__all__ = ["who"]


@pytest.mark.parametrize("name", STORED)
def test_a_stored_picture_is_the_sample_of_its_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert sample(name).board == STORED[name], "copy the new board into webapp/play/launch_pictures.py"


def test_the_first_visitor_of_the_launch_page_does_not_wait_for_a_catalogue(
    who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[object] = []
    monkeypatch.setattr(generated, "catalogue", lambda *arguments: loaded.append(arguments))
    monkeypatch.setattr(catalogue_files, "load", lambda *arguments: loaded.append(arguments))
    environment_info._made.cache_clear()
    pictures = who.owner.get(reverse("launch-boards")).json()
    assert loaded == []
    assert pictures["WebShop"]["board"]["kind"] == "page"
    assert pictures["Sokoban"]["board"]["kind"] == "grid"
    assert all(picture["board"] for picture in pictures.values())
