"""Gymnasium's environments as text environments, with the real package."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from pydantic import TypeAdapter, ValidationError

import envs
from envs.adapters.gymnasium_texts import is_readable, observation_text, without_styles
from envs.base import Board, GridBoard, StepInfo, TextEnv
from envs.pool import EnvironmentPool

VARIANTS = envs.variants("Gymnasium")
TAXI = next(variant for variant in VARIANTS if variant.startswith("Taxi-"))
CLIFF = next(variant for variant in VARIANTS if variant.startswith("CliffWalking-"))
BOARD: TypeAdapter[Any] = TypeAdapter(Board)


def make(variant: str, **settings: Any) -> TextEnv:
    return envs.make("Gymnasium", {"id": variant, **settings})


def play(env: TextEnv, seed: int, dynamics: int, actions: int = 12) -> list[Any]:
    """Everything observable of an episode that takes the actions in turn."""
    seen: list[Any] = [env.reset(seed=seed, options={"dynamics_seed": dynamics}), env.board()]
    for number in range(actions):
        step = env.step(env.env_spec.actions[number % len(env.env_spec.actions)])
        StepInfo.model_validate(step[4])
        BOARD.validate_python(env.board().model_dump())
        seen += [step, env.board(), env.hint()]
        if step[2] or step[3]:
            break
    return seen


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_listed_variant_plays_the_same_from_the_same_seeds(variant: str) -> None:
    first = play(make(variant), 2**62, 7)
    assert play(make(variant), 2**62, 7) == first
    env = make(variant)
    play(env, 3, 4)
    assert play(env, 2**62, 7) == first


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_listed_variant_describes_itself(variant: str) -> None:
    spec = envs.spec("Gymnasium", {"id": variant})
    assert spec.instruction.endswith(".")
    assert spec.actions
    limit = gymnasium.spec(variant).max_episode_steps
    assert spec.max_actions == (min(limit, 1000) if limit else spec.max_actions)
    assert spec.max_turns * spec.max_actions_per_turn >= spec.max_actions


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_copy_is_independent_of_the_original(variant: str) -> None:
    env = make(variant)
    env.reset(seed=2, options={"dynamics_seed": 4})
    before = env.render(), env.board()
    ahead = copy.deepcopy(env)
    step = ahead.step(ahead.env_spec.actions[1])
    assert (env.render(), env.board()) == before
    assert env.step(env.env_spec.actions[1]) == step


def test_a_group_shares_its_start_and_not_what_follows() -> None:
    env = make("FrozenLake-v1")
    starts, ends = set(), set()
    for member in range(24):
        starts.add(env.reset(seed=5, options={"dynamics_seed": member})[0])
        ends.add(env.step("Right")[0])
    assert len(starts) == 1
    assert len(ends) > 1


def test_rewards_and_ends_are_those_of_the_package() -> None:
    env, own = make(TAXI), gymnasium.make(TAXI)
    env.reset(seed=9)
    own.reset(seed=9)
    for name in ["North", "West", "Pickup", "South", "Dropoff", "East"]:
        _, reward, terminated, truncated, _ = own.step(env.env_spec.actions.index(name))
        assert env.step(name)[1:4] == (float(reward), terminated, truncated)


def test_the_time_limit_of_the_environment_ends_the_episode() -> None:
    env = make("FrozenLake-v1", arguments={"is_slippery": False})
    env.reset(seed=1)
    ends = [env.step("Left")[2:4] for _ in range(100)]
    assert ends[-2:] == [(False, False), (False, True)]
    with pytest.raises(ResetNeeded, match="over"):
        env.step("Left")


@pytest.mark.parametrize(
    ("variant", "actions", "success"),
    [
        ("FrozenLake-v1", ["Down", "Down", "Right", "Right", "Down", "Right"], True),
        ("FrozenLake-v1", ["Right", "Down"], False),
        (CLIFF, ["Up", *["Right"] * 11, "Down"], True),
    ],
)
def test_success_is_what_the_variant_calls_success(variant: str, actions: list[str], success: bool) -> None:
    env = make(variant, arguments={"is_slippery": False})
    env.reset(seed=1)
    *before, last = [env.step(action) for action in actions]
    assert not any(step[4]["success"] or step[2] for step in before)
    assert last[2]
    assert last[4]["success"] is success
    assert isinstance(board := env.board(), GridBoard)
    assert ("W" in "".join(board.rows)) is success


def test_another_rule_for_success_can_be_chosen() -> None:
    env = make("FrozenLake-v1", arguments={"is_slippery": False}, success="termination")
    assert "ended the episode" in env.env_spec.success
    env.reset(seed=1)
    env.step("Right")
    assert env.step("Down")[4]["success"], "the hole ends the episode, too"


def test_grids_are_boards_whose_symbols_have_meanings() -> None:
    for variant in ("FrozenLake-v1", CLIFF, TAXI):
        env = make(variant)
        env.reset(seed=3)
        board = env.board()
        assert isinstance(board, GridBoard)
        assert board.legend is not None
        assert set("".join(board.rows)) <= set(board.legend)
        assert len(set(map(len, board.rows))) == 1
        assert "\n".join(board.rows) in env.render()


def test_the_taxis_text_names_passenger_and_destination() -> None:
    env = make(TAXI)
    text, _ = env.reset(seed=3)
    variant = gymnasium.make(TAXI)
    state, _ = variant.reset(seed=3)
    row, column, passenger, destination = variant.unwrapped.decode(state)  # type: ignore[attr-defined]
    assert f"Taxi: row {row + 1}, column {column + 1}" in text
    assert f"Passenger: at {'RGYB'[passenger]}" in text
    assert f"Destination: {'RGYB'[destination]}" in text


def test_an_unknown_action_costs_nothing_and_changes_nothing() -> None:
    env = make("Blackjack-v1")
    text, _ = env.reset(seed=5)
    assert env.step("Fold") == (
        text,
        0.0,
        False,
        False,
        StepInfo(success=False, effective=False, valid=False).model_dump(),
    )
    assert env.step("hit ")[4]["valid"]


def test_actions_can_be_named() -> None:
    env = make("CartPole-v1", actions=["push left", "push right"])
    assert env.env_spec.actions == ("push left", "push right")
    env.reset(seed=1)
    assert env.step("PUSH LEFT")[4]["valid"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"id": "Taxi-v0"}, f"has no 'Taxi-v0': did you mean .*{TAXI}"),
        ({"id": "os:path"}, "has no 'os:path'"),
        ({"id": "Pendulum-v1"}, "has no numbered actions"),
        ({"id": "echoscope/Sokoban-v0"}, "choose Sokoban as environment.name"),
        ({"id": "FrozenLake-v1", "arguments": {"map_nam": "8x8"}}, "cannot be made with these arguments: TypeError"),
        ({"id": "FrozenLake-v1", "arguments": {"map_name": "../../etc/passwd"}}, "no path"),
        ({"id": "FrozenLake-v1", "arguments": {"a b": 1}}, "cannot be the name of an argument"),
        ({"id": "FrozenLake-v1", "actions": ["Left"]}, "must name all 4 actions"),
        ({"id": "Blackjack-v1", "actions": ["A", "a"]}, "different names"),
    ],
)
def test_unusable_settings_are_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        envs.settings_model("Gymnasium").model_validate(settings)


def test_arguments_of_a_form_are_texts() -> None:
    texts = {"map_name": "8x8", "is_slippery": "off", "success_rate": "0.5"}
    made = envs.settings_model("Gymnasium").model_validate({"id": "FrozenLake-v1", "arguments": texts})
    assert made.model_dump()["arguments"] == {"map_name": "8x8", "is_slippery": False, "success_rate": 0.5}
    with pytest.raises(ResetNeeded):
        envs.make("Gymnasium", made.model_dump()).render()


def test_it_plays_in_the_sandbox_of_a_run() -> None:
    pool = EnvironmentPool("Gymnasium", {"id": TAXI}, step_timeout=30, start_timeout=120)
    try:
        here = make(TAXI)
        for seed, started in zip((1, 2), pool.start([(1, 8), (2, 8)]), strict=True):
            assert isinstance(started, TextEnv), started
            here.reset(seed=seed, options={"dynamics_seed": 8})
            assert started.env_spec == here.env_spec
            assert started.step("South") == here.step("South")
            assert (started.render(), started.board(), started.hint()) == (here.render(), here.board(), None)
    finally:
        pool.close()


class Ledger(gymnasium.Env[dict[str, Any], int]):
    """Counts.

    ## Description
    Add one or two until the sum is five.

    ## Rewards
    One at the end.
    """

    metadata = {"render_modes": ["ansi"]}

    def __init__(self, render_mode: str | None = None, shows: bool = True) -> None:
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(2, start=1)
        self.observation_space = spaces.Dict({"sum": spaces.Box(0, 9, (1,), np.int64)}) if shows else PICTURE
        self.total = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.total = 0
        return {"sum": np.array([0])}, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.total += action
        return {"sum": np.array([self.total])}, float(self.total == 5), self.total >= 5, False, {}

    def render(self) -> Any:
        return f"sum \x1b[41m{self.total}\x1b[0m"


PICTURE = spaces.Box(0, 255, (64, 64, 3), np.uint8)


class Picture(Ledger):
    metadata = {"render_modes": ["rgb_array"]}


@pytest.fixture
def registered() -> Any:
    gymnasium.register("others/Ledger-v0", entry_point=Ledger)
    gymnasium.register("others/Picture-v0", entry_point=Picture, kwargs={"shows": False})
    yield
    for name in ("others/Ledger-v0", "others/Picture-v0"):
        del gymnasium.registry[name]


@pytest.mark.usefixtures("registered")
def test_an_environment_that_another_package_registers_plays_with_its_own_texts() -> None:
    env = make("others/Ledger-v0")
    assert env.env_spec.instruction == "Add one or two until the sum is five."
    assert env.env_spec.actions == ("0", "1")
    assert env.reset(seed=1)[0] == "sum [0]"
    assert [env.step(name)[:3] for name in "110"] == [
        ("sum [2]", 0.0, False),
        ("sum [4]", 0.0, False),
        ("sum [5]", 1.0, True),
    ]


@pytest.mark.usefixtures("registered")
def test_an_environment_of_pictures_is_refused() -> None:
    with pytest.raises(ValidationError, match="shows nothing that can be read"):
        make("others/Picture-v0")


def test_observations_are_written_by_their_kind() -> None:
    space = spaces.Dict({"place": spaces.Tuple([spaces.Discrete(4), spaces.Discrete(4)]), "word": spaces.Text(9)})
    assert is_readable(space)
    assert not is_readable(PICTURE)
    assert not is_readable(spaces.Dict({"view": PICTURE}))
    assert observation_text({"place": (np.int64(2), 3), "word": "go"}) == "place: 2, 3\nword: go"
    assert observation_text(np.array([0.123456, -2.0], np.float32), ("speed", "height")) == "speed 0.123, height -2"


def test_highlights_of_a_terminal_become_brackets() -> None:
    assert without_styles("\n\x1b[34;1mR\x1b[0m:\x1b[43m \x1b[0mG\x1b[2K\n") == "R:[ ]G"
