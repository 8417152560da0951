"""Launch form of an adapter: it offers the variants, and takes the budgets of the chosen one."""

from __future__ import annotations

import html
import re

import pytest
from pydantic import TypeAdapter

import envs
from envs.adapters.variant_arguments import Arguments
from tests.webapp.fragments import compact
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of, state_of
from webapp.runs.launch.texts import data_to_text, pairs
from webapp.runs.models import Run

__all__ = ["who"]

TAXI = next(variant for variant in envs.variants("Gymnasium") if variant.startswith("Taxi-"))
VARIANT = "environment.settings.id"


def page_of(who: Visitors, address: str) -> str:
    response = who.owner.get(address)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("preset", ["", "&preset=sokoban-starpo_s-pocket"])
def test_an_adapter_is_chosen_and_offers_its_variants(preset: str, who: Visitors) -> None:
    page = page_of(who, f"/runs/new?environment=Gymnasium{preset}")
    fields = fields_of(page)
    assert fields["environment.name"] == "Gymnasium"
    assert fields[VARIANT] == "FrozenLake-v1"
    assert (fields["rollout.max_turns"], fields["rollout.max_actions"]) == ("20", "100")
    choice = page[page.index('class="variant-choice"') :]
    assert 'value="FrozenLake-v1"' in choice[: choice.index("<datalist")]
    for variant in envs.variants("Gymnasium"):
        assert page.count(f'<option value="{variant}">') == 2, "in the first step and at the setting"


def test_an_environment_of_our_own_offers_none(who: Visitors) -> None:
    page = page_of(who, "/runs/new?environment=Sokoban&id=Taxi")
    assert "variant-choice" not in page
    assert VARIANT not in page
    assert "Sokoban has no variants: the id “Taxi” is left out." in html.unescape(page)


def test_an_address_of_a_server_that_is_not_listed_is_kept_and_refused_at_its_field(who: Visitors) -> None:
    address = "http://games.example:8000"
    page = html.unescape(page_of(who, f"/runs/new?environment=OpenEnv&id={address}"))
    assert fields_of(page)[VARIANT] == address
    assert "ECHOSCOPE_OPENENV" in state_of(page)["errors"]["f-environment-settings-id"]
    page = html.unescape(page_of(who, "/runs/new?environment=OpenEnv&id=Taxi"))
    assert "is not the address of a server" in page


def test_a_variant_in_the_address_brings_its_budgets_and_is_kept(who: Visitors) -> None:
    page = page_of(who, f"/runs/new?environment=Gymnasium&id={TAXI}")
    fields = fields_of(page)
    assert fields[VARIANT] == TAXI
    assert (fields["rollout.max_turns"], fields["rollout.max_actions"]) == ("40", "200")
    assert f"&amp;environment=Gymnasium&amp;id={TAXI}" in page, "another algorithm in the same variant"
    response = who.owner.post("/runs/new", fields)
    assert response.status_code == 302
    run = Run.objects.order_by("-pk")[0]
    assert run.environment == "Gymnasium"
    assert run.config["environment"]["settings"] == {"id": TAXI}
    assert run.config["rollout"]["max_actions"] == 200
    assert run.title.startswith(f"Gymnasium {TAXI} · ")


def test_another_variant_in_the_address_replaces_that_of_a_cloned_run(who: Visitors) -> None:
    fields = fields_of(page_of(who, f"/runs/new?environment=Gymnasium&id={TAXI}"))
    assert who.owner.post("/runs/new", fields).status_code == 302
    clone = f"/runs/new?clone={Run.objects.order_by('-pk')[0].slug}&environment=Gymnasium"
    assert fields_of(page_of(who, clone))[VARIANT] == TAXI
    other = fields_of(page_of(who, f"{clone}&id=FrozenLake-v1"))
    assert other[VARIANT] == "FrozenLake-v1"
    assert other["rollout.max_turns"] == "20"
    assert fields_of(page_of(who, f"{clone}&id=Taxi-v0"))[VARIANT] == TAXI, "an unknown one changes nothing"


def test_an_unknown_variant_is_refused_with_near_matches(who: Visitors) -> None:
    page = html.unescape(page_of(who, "/runs/new?environment=Gymnasium&id=Taxi-v0"))
    assert f"did you mean {TAXI}" in page
    assert fields_of(page)[VARIANT] == "FrozenLake-v1"
    fields = fields_of(page_of(who, "/runs/new?environment=Gymnasium")) | {VARIANT: "Taxi-v0"}
    answer = who.owner.post("/runs/new/check", fields).content.decode()
    assert f"did you mean {TAXI}" in state_of(html.unescape(answer))["errors"]["f-environment-settings-id"]


def test_arguments_that_the_variant_refuses_are_shown_at_its_field(who: Visitors) -> None:
    fields = fields_of(page_of(who, "/runs/new?environment=Gymnasium"))
    answer = who.owner.post("/runs/new/check", fields | {"environment.settings.arguments": "map_nam=8x8"})
    assert "cannot be made" in state_of(answer.content.decode())["errors"]["f-environment-settings-id"]
    answer = who.owner.post("/runs/new/check", fields | {"environment.settings.arguments": "is_slippery=off"})
    assert state_of(answer.content.decode())["errors"] == {}


def test_another_variant_brings_its_budgets(who: Visitors) -> None:
    query = {"preset": "sokoban-starpo_s-pocket", "environment.name": "Gymnasium", VARIANT: "Blackjack-v1"}
    answer = compact(who.owner.get("/runs/new/environment", query).content.decode())
    assert "max turns 10, max actions per turn 1, max actions 10" in answer
    assert len(re.findall("hx-swap-oob", answer)) == 3
    unknown = who.owner.get("/runs/new/environment", query | {VARIANT: "Nothing-v0"}).content.decode()
    assert not unknown.strip()


@pytest.mark.parametrize(
    "arguments", [{"map_name": "8x8", "is_slippery": False, "p": 0.5}, {"sizes": [3, 4], "one": [2]}]
)
def test_arguments_survive_the_form(arguments: dict[str, object]) -> None:
    assert TypeAdapter(Arguments).validate_python(pairs(data_to_text(arguments))) == arguments
