"""Configurations with dotted overrides."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.webapp.conftest import People
from trainer.config.files import load_preset, with_values
from webapp.runs.launch.estimates import expected_time
from webapp.runs.launch.overrides import changes

BASE = load_preset("sokoban-starpo_s-pocket")


def test_changes_are_applied_and_read_back() -> None:
    wanted = {"iterations": 7, "algorithm.kl_coef": 0.5, "environment.settings": {"boxes": 2}}
    assert changes(with_values(BASE, wanted), BASE) == wanted
    assert with_values(BASE, {"environment.settings.boxes": 3}).environment.settings["boxes"] == 3


def test_unknown_settings_and_invalid_values_are_refused() -> None:
    with pytest.raises(ValueError, match="no setting of this name"):
        with_values(BASE, {"no.such": 1})
    with pytest.raises(ValidationError):
        with_values(BASE, {"iterations": -1})


def test_the_time_of_several_runs_is_the_sum_of_theirs(people: People) -> None:
    once, unknown = expected_time(people.owner, [BASE]), with_values(BASE, {"policy.model": "someone/Else-13B"})
    assert once is not None
    shorter = with_values(BASE, {"iterations": BASE.iterations // 2})
    both = expected_time(people.owner, [BASE, shorter])
    assert both is not None
    assert once.seconds < both.seconds < 2 * once.seconds
    assert once.text.startswith("about ")
    assert expected_time(people.owner, [BASE, unknown]) is None


def test_another_environment_takes_its_own_budgets_along() -> None:
    shop = with_values(BASE, {"environment.name": "WebShop"})
    assert (shop.rollout.max_turns, shop.rollout.max_actions) == (9, 9)
    assert changes(shop, BASE) == {"environment.name": "WebShop"}
    short = with_values(BASE, {"environment.name": "WebShop", "rollout.max_turns": BASE.rollout.max_turns})
    assert changes(short, BASE) == {"environment.name": "WebShop", "rollout.max_turns": BASE.rollout.max_turns}
    assert with_values(BASE, changes(short, BASE)) == short


def test_settings_that_change_budgets_take_them_along() -> None:
    base = with_values(BASE, {"environment.name": "ToolCalculator"})
    more = {"environment.settings": {"max_calls": 7}}
    assert with_values(base, more).rollout.max_turns == 8
    assert changes(with_values(base, more), base) == more
    fewer = more | {"rollout.max_turns": 3}
    assert changes(with_values(base, fewer), base) == fewer
