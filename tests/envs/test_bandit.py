"""The two-armed bandits."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import envs
from envs.bandit import BanditSettings


def test_orders_and_rewards_of_the_first_seeds_are_pinned():
    env = envs.make("Bandit")
    seen = [env.reset(seed=seed)[0] + env.step("Dragon")[0] for seed in range(500)]
    assert hashlib.sha256("\n".join(seen).encode()).hexdigest()[:16] == "77113c8ca8875dc5"


def test_the_low_arm_pays_always_and_the_high_arm_sometimes():
    env = envs.make("Bandit")
    low, high = set(), []
    for seed in range(1000):
        env.reset(seed=seed)
        low.add(env.step("Phoenix")[1])
        env.reset(seed=seed)
        high.append(env.step("Dragon")[1])
    assert low == {0.15}
    assert set(high) == {0.0, 1.0}
    assert sum(high) / 1000 == pytest.approx(0.25, abs=0.05)


def test_members_of_a_group_see_the_same_order_and_draw_independently():
    env = envs.make("Bandit")
    starts, paid = set(), []
    for member in range(64):
        starts.add((env.reset(seed=8, options={"dynamics_seed": member})[0], env.env_spec.actions))
        paid.append(env.step("Dragon")[1])
    assert len(starts) == 1
    assert 0 < sum(paid) < 64


def test_success_depends_on_the_arm_not_on_its_reward():
    env = envs.make("Bandit")
    for seed in range(50):
        env.reset(seed=seed)
        assert env.step("Dragon")[2:] == (
            True,
            False,
            {"success": True, "effective": True, "valid": True, "actual": None},
        )
        env.reset(seed=seed)
        assert env.step("Phoenix")[4]["success"] is False


def test_the_order_of_the_names_follows_from_the_seed_in_text_actions_and_board():
    env = envs.make("Bandit")
    orders = set()
    for seed in range(40):
        text, _ = env.reset(seed=seed)
        assert text == f"Arms: {env.env_spec.actions[0]}, {env.env_spec.actions[1]}"
        assert tuple(arm.name for arm in env.board().arms) == env.env_spec.actions
        orders.add(env.env_spec.actions)
    assert orders == {("Dragon", "Phoenix"), ("Phoenix", "Dragon")}


def test_the_board_shows_what_was_pulled():
    env = envs.make("Bandit", {"high_probability": 1.0})
    env.reset(seed=0)
    env.step("dragon")
    arms = {arm.name: arm for arm in env.board().arms}
    assert (arms["Dragon"].pulls, arms["Dragon"].total, arms["Dragon"].last) == (1, 1.0, 1.0)
    assert (arms["Phoenix"].pulls, arms["Phoenix"].last) == (0, None)
    assert env.render() == "Dragon: 1.0 points"


def test_the_advice_is_the_arm_of_higher_expected_value():
    env = envs.make("Bandit")
    env.reset(seed=0)
    assert (env.hint().actions, env.hint().value) == (["Dragon"], 0.25)
    env.step("Phoenix")
    assert (env.hint().solvable, env.hint().reason) == ("no", "the low arm was pulled")
    sure = envs.make("Bandit", {"low_reward": 0.5})
    sure.reset(seed=0)
    assert (sure.hint().actions, sure.hint().value) == (["Phoenix"], 0.5)
    even = envs.make("Bandit", {"low_reward": 0.25})
    even.reset(seed=0)
    assert sorted(even.hint().actions) == ["Dragon", "Phoenix"]


def test_the_variants_exchange_or_replace_the_names():
    plain, turned, other = (envs.settings_model(name)() for name in ("Bandit", "BanditRev", "BanditTest"))
    assert (turned.low_name, turned.high_name) == (plain.high_name, plain.low_name)
    assert not {other.low_name, other.high_name} & {plain.low_name, plain.high_name}
    env = envs.make("BanditRev")
    env.reset(seed=0)
    assert env.step("Dragon")[1] == 0.15


@given(
    low=st.text(min_size=1, max_size=40),
    high=st.text(min_size=1, max_size=40),
    reward=st.floats(0, 1),
    chance=st.floats(0, 1),
    seed=st.integers(0, 2**40),
)
def test_the_text_is_in_its_space_for_any_names(low, high, reward, chance, seed):
    try:
        env = envs.make(
            "Bandit",
            {"low_name": low, "high_name": high, "low_reward": reward, "high_probability": chance},
        )
    except ValidationError:
        return
    for arm in (0, 1):
        assert env.reset(seed=seed)[0] in env.observation_space
        assert env.step(env.env_spec.actions[arm])[0] in env.observation_space


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"low_name": "dragon"}, "different names"),
        ({"low_name": "a || b"}, "cannot be the name"),
        ({"low_name": " a"}, "cannot be the name"),
        ({"high_probability": 1.5}, "high_probability"),
    ],
)
def test_invalid_arms_are_refused(wrong, message):
    with pytest.raises(ValidationError, match=message):
        BanditSettings(**wrong)
