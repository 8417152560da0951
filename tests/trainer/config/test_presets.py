"""Shipped presets: settings of the paper, tuned pocket settings, short names."""

import re

import pytest

import envs
from trainer.config.files import PRESETS, SHORT_NAMES, find_preset, load_preset, preset_names
from trainer.config.run import POCKET, RunConfig
from trainer.imitation import warmup
from trainer.imitation.courses import COURSES

ENVIRONMENTS = {
    "bandit": "Bandit",
    "sokoban": "Sokoban",
    "frozen_lake": "FrozenLake",
    "webshop": "WebShop",
    "countdown": "Countdown",
}
ONLY_POCKET = {"tool_calculator": "ToolCalculator"}
"""Environments that the paper does not have."""
SOURCE = re.compile(r"paper|published code|ours|StarPO|likewise|as it comes")
FAMILY = [(environment, variant) for environment in ENVIRONMENTS for variant in ("starpo", "starpo_s")]


def leaves(data, path=""):
    """Every setting of nested data with its dotted name."""
    for name, value in data.items():
        if isinstance(value, dict) and path + name != "environment.settings":
            yield from leaves(value, f"{path}{name}.")
        else:
            yield path + name, value


POCKET_FAMILY = [*FAMILY, *((environment, way) for environment in ONLY_POCKET for way in ("starpo", "starpo_s"))]
TRAPS = ("bandit-starpo-trap", "bandit-starpo_s-trap")
REAL = {"smollm2": "smollm2-135m", "qwen2.5-0.5b": "qwen2.5-0.5b"}
"""Pretrained models with presets of their own, by the last part of the preset's name."""


def test_every_environment_has_presets_of_each_policy_and_the_bandit_two_of_the_trap():
    family = [f"{environment}-{way}-paper" for environment, way in FAMILY]
    family += [f"{environment}-{way}-pocket" for environment, way in POCKET_FAMILY]
    family += [f"{environment}-starpo_s-{model}" for environment in ENVIRONMENTS | ONLY_POCKET for model in REAL]
    assert preset_names() == sorted([*family, *TRAPS])
    for name in preset_names():
        environment, variant, policy = name.split("-", 2)
        config = load_preset(name)
        played = (ENVIRONMENTS | ONLY_POCKET)[environment]
        assert config.environment.name == ("BanditRev" if policy in REAL and environment == "bandit" else played)
        assert (config.algorithm.group_filter != "none") == (variant == "starpo_s")
        assert (config.policy.model == POCKET) == (policy in ("pocket", "trap"))
        if policy in REAL:
            assert config.policy.model == REAL[policy]
            assert config.sft.warmup_steps > 0, "no pretrained model of this size has a legal answer at first"


@pytest.mark.parametrize("name", preset_names())
def test_every_value_has_a_source(name):
    for line in (PRESETS / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
        setting, _, comment = line.partition("  # ")
        key, _, value = setting.partition(":")
        if value.strip() and not key.startswith("#"):
            assert SOURCE.search(comment), line
            assert "settings table" not in comment, "the paper's table is in appendix B.2"


@pytest.mark.parametrize("environment, variant", FAMILY)
def test_paper_presets_match_the_settings_table_of_the_paper(environment, variant):
    config = load_preset(f"{environment}-{variant}-paper")
    rollout, algorithm, optimizer = config.rollout, config.algorithm, config.optimizer
    assert config.policy.model == "Qwen/Qwen2.5-0.5B-Instruct"
    assert (rollout.groups, rollout.group_size, optimizer.mini_batch_trajectories) == (8, 16, 32)
    assert config.iterations == (100 if environment == "webshop" else 200)
    assert (algorithm.value_coef, algorithm.tis_cap, optimizer.weight_decay) == (1.0, None, 0.01)
    assert rollout.max_response_tokens == (500 if environment == "bandit" else 400)
    assert config.evaluation.suites == (["BanditTest"] if environment == "bandit" else [])
    assert rollout.format_line == ("auto" if environment in ("webshop", "countdown") else "paper")
    assert rollout.system.startswith("You're a helpful assistant.")
    assert (algorithm.gamma, algorithm.gae_lambda, algorithm.entropy_coef) == (1.0, 1.0, 0.001)
    assert (optimizer.policy_lr, optimizer.critic_lr) == (1e-6, 1e-5)
    assert config.rewards.format_penalty == -0.1
    assert (rollout.temperature, config.evaluation.temperature, config.evaluation.prompts) == (1.0, 0.5, 256)
    assert (algorithm.estimator, algorithm.dual_clip) == ("gae", 3.0)
    assert algorithm.aggregation == "seq-mean-token-mean"
    if variant == "starpo":
        assert (algorithm.group_filter, algorithm.clip_low, algorithm.clip_high) == ("none", 0.2, 0.2)
        assert (algorithm.kl_coef, algorithm.kl_penalty) == (0.001, "reward_k1")
    else:
        assert (algorithm.group_filter, algorithm.group_filter_keep) == ("std", 0.25)
        assert (algorithm.clip_low, algorithm.clip_high, algorithm.kl_coef) == (0.2, 0.28, 0.0)
    budget = (rollout.max_turns, rollout.max_actions_per_turn, rollout.max_actions)
    spec = envs.spec(config.environment.name)
    assert budget == (spec.max_turns, spec.max_actions_per_turn, spec.max_actions)


@pytest.mark.parametrize(
    ("environment", "size"),
    [
        *((environment, "paper") for environment in ENVIRONMENTS),
        *((name, "pocket") for name in ENVIRONMENTS | ONLY_POCKET),
    ],
)
def test_starpo_and_starpo_s_differ_only_in_their_defining_settings(environment, size):
    plain, stable = (
        dict(leaves(load_preset(f"{environment}-{variant}-{size}").model_dump())) for variant in ("starpo", "starpo_s")
    )
    different = {name for name in plain if plain[name] != stable[name]}
    ours = {"algorithm.group_filter", "algorithm.group_filter_keep", "algorithm.clip_high", "algorithm.kl_coef"}
    assert ours <= different <= ours | {"algorithm.drop_zero_std"}


@pytest.mark.parametrize("environment, variant", POCKET_FAMILY)
def test_pocket_presets_follow_the_tuned_one(environment, variant):
    tuned = dict(leaves(load_preset("sokoban-starpo_s-pocket").model_dump()))
    config = dict(leaves(load_preset(f"{environment}-{variant}-pocket").model_dump()))
    for name in ("algorithm.estimator", "algorithm.normalize_by_std"):
        assert config[name] == tuned[name]
    if environment == "webshop":  # long purchases, see the comments in its presets
        assert config["optimizer.mini_batch_trajectories"] * 2 == tuned["optimizer.mini_batch_trajectories"]
        assert config["optimizer.policy_lr"] * 2 == tuned["optimizer.policy_lr"]
    else:
        assert config["rewards.format_penalty"] == tuned["rewards.format_penalty"]
        if environment != "frozen_lake":  # whose rate decays from a higher one
            assert config["optimizer.policy_lr"] == tuned["optimizer.policy_lr"]
    assert config["rollout.group_size"] == 8


def test_the_echo_trap_presets_divide_by_the_spread_and_differ_as_starpo_and_starpo_s_do():
    plain, stable = (dict(leaves(load_preset(name).model_dump())) for name in TRAPS)
    pocket = dict(leaves(load_preset("bandit-starpo-pocket").model_dump()))
    assert {name for name in plain if plain[name] != stable[name]} == {
        "algorithm.group_filter",
        "algorithm.group_filter_keep",
        "algorithm.drop_zero_std",
        "algorithm.clip_high",
        "algorithm.kl_coef",
    }
    assert {name for name in plain if plain[name] != pocket[name]} == {
        "iterations",
        "algorithm.normalize_by_std",
        "optimizer.policy_lr",
        "evaluation.every",
    }


@pytest.mark.parametrize("environment", ["bandit", "frozen_lake", "countdown", "webshop", "tool_calculator"])
@pytest.mark.parametrize("variant", ["starpo", "starpo_s"])
def test_the_pocket_policy_of_every_preset_ships_and_plays_as_it_was_taught(environment, variant):
    config = load_preset(f"{environment}-{variant}-pocket")
    assert warmup.shipped(config.warmup) is not None
    ((taught, _),) = COURSES[config.warmup.course].tasks(config.rollout)
    budgets = ("max_turns", "max_actions_per_turn", "max_actions", "context_turns", "max_response_tokens")
    for name in budgets:
        assert getattr(config.rollout, name) == getattr(taught.rollout, name), name
    assert config.environment.settings == taught.environment.settings


def test_the_demo_preset_is_unchanged_since_its_curves_were_measured():
    """docs/performance.md reports this run with these settings."""
    changed = {
        "iterations": 80,
        "rollout.groups": 16,
        "rollout.group_size": 8,
        "algorithm.estimator": "grpo",
        "algorithm.normalize_by_std": False,
        "algorithm.group_filter": "std",
        "algorithm.group_filter_keep": 0.5,
        "algorithm.clip_high": 0.28,
        "algorithm.updates_per_rollout": 2,
        "rewards.format_penalty": -0.5,
        "optimizer.policy_lr": 2e-4,
        "optimizer.lr_schedule": "cosine_to_fifth",
        "optimizer.lr_warmup": 3,
        "evaluation.every": 8,
        "checkpoint.every": 8,
    }
    defaults = dict(leaves(RunConfig().model_dump()))
    assert dict(leaves(load_preset("sokoban-pocket").model_dump())) == defaults | changed


def test_short_names_are_accepted_everywhere():
    for short, full in SHORT_NAMES.items():
        assert find_preset(short) == find_preset(full) == full
        assert load_preset(short) == load_preset(full)
        assert short not in preset_names()
    assert find_preset("sokoban") is None
    assert find_preset("../presets/sokoban-starpo-paper") is None
