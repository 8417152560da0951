"""Launch form: generated from RunConfig, validated while typing, for members only."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envs.playable_names import PLAYABLE
from tests.webapp.conftest import People
from tests.webapp.fragments import compact, contains
from tests.webapp.page_requests import Visitors, assert_private, who
from trainer.config.catalogue import catalogue
from trainer.config.dotted import leaves
from trainer.config.environment import BUDGETS, recommended_budgets
from trainer.config.files import load_preset, preset_names
from trainer.config.run import RunConfig
from webapp.core.database import database_now
from webapp.runs.launch import fields as form_fields
from webapp.runs.launch import form as forms
from webapp.runs.models import Run, StoredModel, Worker

__all__ = ["who"]


def fields_of(page: str) -> dict[str, str]:
    """Fields a browser would post for the unchanged form."""
    form = page[page.index('id="launch"') :]
    found: dict[str, str] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if attributes.get("type") in ("checkbox", "radio") and " checked" not in tag:
            continue
        if "name" in attributes:
            found[attributes["name"]] = html.unescape(attributes.get("value", ""))
    for name, text in re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>([^<]*)', form):
        found[name] = html.unescape(text)
    for name, options in re.findall(r'<select[^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.S):
        selected = re.search(r"<option([^>]*) selected\s*>([^<]*)", options)
        chosen = selected or re.search(r"<option([^>]*)>([^<]*)", options)
        value = re.search(r'value="([^"]*)"', chosen[1]) if chosen else None
        found[name] = html.unescape(value[1] if value else chosen[2].strip() if chosen else "")
    return found


def state_of(page: str) -> dict[str, Any]:
    """Errors and hidden settings in the answer of a check."""
    found = re.search(r'<script id="launch-state" type="application/json">(.*?)</script>', page, re.S)
    assert found
    state: dict[str, Any] = json.loads(found[1])
    return state


@pytest.fixture
def installed_models(people: People) -> None:
    """A live worker with every model of the catalogue."""
    now = database_now()
    Worker.objects.create(name="worker@here", model_store="store", started_at=now, last_seen_at=now)
    StoredModel.objects.bulk_create(
        StoredModel(name=name, store="store", state=StoredModel.State.INSTALLED) for name in catalogue()
    )


def texts(config: RunConfig) -> list[tuple[str, str]]:
    return [(name, json.dumps(value)) for name, value in leaves(config.model_dump())]


def presets_of_all_settings() -> list[str]:
    """Presets that together set everything that any preset sets."""
    default, found, known = set(texts(RunConfig())), [], set[str]()
    for name in preset_names():
        own = {setting for setting, _ in set(texts(load_preset(name))) - default}
        if own - known:
            found.append(name)
            known |= own
    return found


@pytest.mark.parametrize("preset", presets_of_all_settings())
@pytest.mark.usefixtures("installed_models")
def test_an_unchanged_form_launches_exactly_its_preset(preset: str, who: Visitors) -> None:
    page = who.owner.get(f"/runs/new?preset={preset}").content.decode()
    response = who.owner.post("/runs/new", fields_of(page))
    run = Run.objects.get()
    assert response["Location"] == f"/runs/{run.slug}/"
    assert RunConfig.model_validate(run.config) == load_preset(preset)
    assert run.preset == preset
    assert run.state == Run.State.QUEUED


@pytest.mark.parametrize("name", ["WebShop", "Boxoban", "MetaMathQA", "BanditTest"])
def test_an_address_with_an_environment_opens_the_form_with_it_and_its_budgets(name: str, who: Visitors) -> None:
    for address in (f"/runs/new?environment={name}", f"/runs/new?preset=sokoban-starpo_s-pocket&environment={name}"):
        fields = fields_of(who.owner.get(address).content.decode())
        assert fields["environment.name"] == name
        assert {budget: int(fields[f"rollout.{budget}"]) for budget in BUDGETS} == recommended_budgets(name)
    who.owner.post("/runs/new", fields)
    run = Run.objects.get()
    assert {budget: run.config["rollout"][budget] for budget in BUDGETS} == recommended_budgets(name)


def test_an_unknown_environment_in_the_address_is_reported(who: Visitors) -> None:
    page = html.unescape(who.owner.get("/runs/new?environment=Chess").content.decode())
    assert "There is no environment “Chess”: choose one below." in page


def test_another_environment_in_the_form_replaces_settings_and_budgets(who: Visitors) -> None:
    query = "environment.name=WebShop&preset=sokoban-starpo_s-pocket&clone="
    page = html.unescape(who.owner.get(f"/runs/new/environment?{query}").content.decode())
    assert 'name="environment.settings.longest_text"' in page
    assert "hx-swap-oob=\"outerHTML:[data-setting='rollout.max_turns']\"" in page
    assert re.search(r'name="rollout.max_turns" value="9"', page)
    assert 'data-setting="rollout.max_turns" data-default="5"' in page
    assert "rollout.groups" not in page, "only budgets are replaced"


def test_an_empty_budget_is_that_of_the_environment(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode())
    who.owner.post("/runs/new", fields | {"environment.name": "WebShop", "rollout.max_turns": ""})
    assert Run.objects.get().config["rollout"]["max_turns"] == 9


def test_every_setting_of_the_configuration_has_a_field_with_its_help(who: Visitors) -> None:
    page = html.unescape(who.owner.get("/runs/new").content.decode())
    for name in form_fields.names():
        assert f'name="{name}"' in page
    for setting in form_fields.environment_settings("Sokoban", {}, {}):
        assert f'name="{setting.name}"' in page
        assert setting.help in page


def test_viewers_may_not_launch(who: Visitors) -> None:
    for response in (who.viewer.get("/runs/new"), who.viewer.post("/runs/new", {}), who.viewer.post("/runs/new/check")):
        assert response.status_code == 403
    assert "Ask an admin of the team" in who.viewer.get("/runs/new").content.decode()
    assert who.anonymous.get("/runs/new")["Location"].startswith("/login")
    assert not Run.objects.exists()


@pytest.mark.parametrize("known", [True, False])
def test_outsiders_launch_into_no_team_but_their_own(known: bool, people: People, who: Visitors) -> None:
    fields = fields_of(who.outsider.get("/runs/new").content.decode())
    other = {"team": people.team.slug if known else "no-such-team"}
    refused = who.outsider.post("/runs/new", fields | other)
    assert refused.status_code == 422
    assert contains(refused.content.decode(), "Team: you may not launch runs in this team (any more)")
    assert contains(who.outsider.post("/runs/new/check", fields | other).content.decode(), "Team: you may not launch")
    assert not Run.objects.exists()
    who.outsider.post("/runs/new", fields)
    assert Run.objects.get().team.name == "Elsewhere"


def test_an_invalid_value_is_explained_at_its_field(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode())
    response = who.owner.post("/runs/new", fields | {"rollout.groups": "many", "algorithm.gamma": "3"})
    page = html.unescape(response.content.decode())
    assert response.status_code == 422
    assert re.search(r'id="f-rollout-groups-error">must be a whole number above 0, not \'many\'<', page)
    assert re.search(r'id="f-algorithm-gamma-error">must be a number of at most 1<', page)
    assert "<a href=\"#f-rollout-groups\">Groups, P must be a whole number above 0, not 'many'</a>" in page
    assert 'value="many"' in page
    assert not Run.objects.exists()


def test_live_validation_sets_and_clears_field_errors(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode())
    good = who.owner.post("/runs/new/check", fields).content.decode()
    assert state_of(good)["errors"] == {}
    preset = load_preset("sokoban-pocket")
    shape = f"{preset.iterations} iterations of {preset.rollout.groups} × {preset.rollout.group_size} trajectories"
    assert shape in good
    bad = who.owner.post("/runs/new/check", fields | {"rollout.groups": "0"}).content.decode()
    assert state_of(bad)["errors"] == {"f-rollout-groups": "must be a whole number above 0"}
    assert contains(bad, "Groups, P must be a whole number above 0")


def test_a_check_is_cheap(who: Visitors, django_assert_max_num_queries: Any) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode()) | {"seeds": "5"}
    who.owner.post("/runs/new/check", fields)
    with django_assert_max_num_queries(12):
        answer = who.owner.post("/runs/new/check", fields)
    assert len(answer.content) < 12_000


def test_the_form_takes_no_query_for_each_model(who: Visitors, django_assert_max_num_queries: Any) -> None:
    who.owner.get("/runs/new")
    with django_assert_max_num_queries(20):
        who.owner.get("/runs/new")


def test_the_essentials_of_an_address_are_filled_in(who: Visitors) -> None:
    page = who.owner.get("/runs/new?preset=bandit-starpo-pocket&iterations=7&seed=x&journal.tokens=none")
    fields = fields_of(page.content.decode())
    assert (fields["iterations"], fields["seed"], fields["journal.tokens"]) == ("7", "x", "all")
    assert contains(page.content.decode(), "Seed must be a whole number of at least 0")


def test_settings_that_cannot_matter_are_hidden_unless_they_were_changed(who: Visitors) -> None:
    def hidden(page: str) -> set[str]:
        return set(re.findall(r'class="setting inactive"\s+data-setting="([^"]+)"', page))

    page = who.owner.get("/runs/new").content.decode()
    assert {"lora.alpha", "engine.urls", "hosted.url", "sft.batch"} <= hidden(page)
    assert not {"iterations", "algorithm.group_filter_keep", "engine.name"} & hidden(page)
    changed = who.owner.post("/runs/new", fields_of(page) | {"do": "check", "lora.alpha": "32"}).content.decode()
    assert "lora.alpha" not in hidden(changed)
    assert contains(html.unescape(changed), "No effect: “Rank” is 0: no adapters.")


def test_contradicting_settings_are_reported_at_the_named_field(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode()) | {"rollout.group_size": "1"}
    page = html.unescape(who.owner.post("/runs/new/check", fields).content.decode())
    assert "at least 2" in state_of(page)["errors"]["f-rollout-group_size"]
    assert "“Group size, N” must be at least 2" in page


def test_reward_terms_are_parsed_as_pairs(who: Visitors) -> None:
    page = who.owner.get("/runs/new?preset=sokoban-pocket").content.decode()
    post = fields_of(page) | {"rewards.terms": "facts_true=0.1, repeats=-0.2"}
    who.owner.post("/runs/new", post)
    assert Run.objects.get().config["rewards"]["terms"] == {"facts_true": 0.1, "repeats": -0.2}
    clone = who.owner.get(f"/runs/new?clone={Run.objects.get().slug}").content.decode()
    assert set(fields_of(clone)["rewards.terms"].split(", ")) == {"facts_true=0.1", "repeats=-0.2"}
    wrong = forms.parse(post | {"rewards.terms": "facts_true=much"})
    assert wrong.errors == {"rewards.terms": "must be a number, not 'much'"}
    wrong = forms.parse(post | {"rewards.terms": "wit=1"})
    assert "there is no reward term 'wit'" in wrong.errors["rewards.terms"]


def test_further_environments_are_written_as_a_list_and_cloned(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new?preset=sokoban-pocket").content.decode())
    text = "- {name: FrozenLake, share: 0.25, settings: {size: 5}, max_turns: 3}\n- {name: Bandit, share: 0.5}"
    assert fields["environment.mix"] == ""
    checked = html.unescape(who.owner.post("/runs/new/check", fields | {"environment.mix": text}).content.decode())
    assert f"<ins>{text}</ins>" in checked
    who.owner.post("/runs/new", fields | {"environment.mix": text.replace("\n", "\r\n")})
    run = Run.objects.get()
    assert [entry["name"] for entry in run.config["environment"]["mix"]] == ["FrozenLake", "Bandit"]
    page = who.owner.get(f"/runs/new?clone={run.slug}").content.decode()
    assert fields_of(page)["environment.mix"] == text
    who.owner.post("/runs/new", fields_of(page))
    assert Run.objects.exclude(pk=run.pk).get().config["environment"] == run.config["environment"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Bandit", "must be a list, not 'Bandit'"),
        ("- {name: Bandit", "must be a list, not '- {name: Bandit'"),
        ("- Bandit", "entry 1: must be a mapping of settings, not 'Bandit'"),
        ("- {name: Bandit, share: 0.5}\n- {name: Chess, share: 0.1}", "entry 2, name: unknown environment 'Chess'; "),
        ("- {name: Bandit, share: 2}", "entry 1, share: must be less than 1.0"),
        ("- {name: FrozenLake, share: 0.5, settings: {size: 99}}", "entry 1, settings: FrozenLake: size: "),
        ("- {name: Sokoban, share: 0.5}", "lists Sokoban, which is environment.name already"),
    ],
)
def test_what_is_wrong_with_a_further_environment_is_shown_at_the_field(text: str, message: str, who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new?preset=sokoban-pocket").content.decode())
    checked = forms.parse(fields | {"environment.mix": text})
    assert checked.errors["environment.mix"].startswith(message)
    page = who.owner.post("/runs/new", fields | {"environment.mix": text})
    assert page.status_code == 422
    assert fields_of(page.content.decode())["environment.mix"] == text


def test_environment_settings_are_validated_by_their_own_model(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode()) | {"environment.settings.boxes": "99"}
    page = who.owner.post("/runs/new/check", fields).content.decode()
    assert state_of(page)["errors"] == {"f-environment-settings-boxes": "must be at most 4"}


def test_choosing_another_environment_brings_its_settings(who: Visitors) -> None:
    page = who.owner.get("/runs/new/environment?environment.name=FrozenLake").content.decode()
    assert 'name="environment.settings.slippery"' in page
    assert "boxes" not in page
    assert who.owner.get("/runs/new/environment?environment.name=Nowhere").status_code == 200


def test_a_switch_of_an_environment_can_be_turned_off(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new?preset=frozen_lake-pocket").content.decode())
    del fields["environment.settings.slippery"]
    who.owner.post("/runs/new", fields)
    assert Run.objects.get().config["environment"]["settings"] == {"slippery": False}


def test_a_clone_opens_with_the_values_of_its_run(run: Run, who: Visitors) -> None:
    changed = RunConfig.model_validate(run.config | {"seed": 17, "tags": ["baseline", "lr"]})
    Run.objects.filter(pk=run.pk).update(config=changed.model_dump(mode="json"))
    page = who.owner.get(f"/runs/new?clone={run.slug}").content.decode()
    assert "Clone of" in page
    who.owner.post("/runs/new", fields_of(page))
    assert RunConfig.model_validate(Run.objects.exclude(pk=run.pk).get().config) == changed


def test_invisible_runs_cannot_be_cloned(run: Run, who: Visitors) -> None:
    assert_private(f"/runs/new?clone={run.slug}", who)


def test_an_unknown_preset_is_the_default_one(who: Visitors) -> None:
    assert who.owner.get("/runs/new?preset=../../etc/passwd").status_code == 200


@given(
    st.dictionaries(
        st.sampled_from([*form_fields.names(), "environment.settings.size", "environment.settings.slippery", "junk"]),
        st.text(max_size=20),
    )
)
def test_no_input_breaks_the_form(post: dict[str, str]) -> None:
    checked = forms.parse(post)
    assert (checked.config is None) == bool(checked.errors)
    assert all(text for text in checked.errors.values())
    form_fields.groups(checked.data, RunConfig(), checked.errors)


@given(st.sampled_from(PLAYABLE), st.integers(0, 2**32 - 1), st.floats(1e-9, 1), st.text("abc ü", max_size=20))
def test_the_form_round_trips(name: str, seed: int, rate: float, title: str) -> None:
    data: dict[str, Any] = RunConfig(seed=seed, name=title).model_dump()
    data["environment"]["name"], data["optimizer"]["policy_lr"] = name, rate
    config = RunConfig.model_validate(data)
    settings = [setting for group in form_fields.groups(data, config) for setting in group.settings]
    post = {setting.name: setting.value for setting in settings if setting.kind != "switch" or setting.value}
    assert forms.parse(post).config == config


@pytest.mark.nightly
def test_every_shipped_preset_is_two_choices_away(who: Visitors) -> None:
    seen, todo = set(), ["sokoban-starpo_s-pocket"]
    while todo:
        name = todo.pop()
        page = compact(who.owner.get(f"/runs/new?preset={name}").content.decode())
        seen.add(name)
        todo += set(re.findall(r'href="\?preset=([^"]+)"', page)) - seen - set(todo)
        assert len(re.findall(r'href="\?preset=[^"]+"[^>]*aria-current="true"', page)) == 3  # of each choice one
    assert sorted(seen) == preset_names()
