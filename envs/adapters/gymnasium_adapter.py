"""Adapter for Gymnasium: every registered environment with numbered actions and readable states."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import EnumMeta
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

import gymnasium
import numpy as np
from gymnasium import spaces
from pydantic import Field, field_validator, model_validator

from envs.adapters.gymnasium_texts import about, has_own_text, is_readable, observation_text, without_styles
from envs.adapters.gymnasium_variants import KINDS, SuccessRule, VariantKind
from envs.adapters.observed_env import ObservedEnv
from envs.adapters.packages import no_such_variant
from envs.adapters.variant_arguments import Arguments, as_key, from_key
from envs.base import EnvSettings, EnvSpec, GridBoard, TextBoard
from envs.spaces import ActionNames
from envs.support.reset_options import read_options
from envs.support.rng import Stream
from envs.text_roles import TextRole

OWN_NAMESPACE = "echoscope/"
MAX_TURNS, MAX_ACTIONS = 100, 1000
"""Upper limits of a run's budgets."""
_UNSUITABLE = tuple(f"gymnasium.envs.{family}." for family in ("mujoco", "box2d", "phys2d", "tabular"))
"""Modules of Gymnasium that need further packages, and mostly have images or continuous actions."""
_CONTINUOUS = {"Pendulum-v1", "MountainCarContinuous-v0"}
RULES: dict[SuccessRule, str] = {
    "reward": "The episode ended with a positive reward.",
    "termination": "The goal was reached: the rules ended the episode before its time limit.",
    "time_limit": "The rules did not end the episode before its time limit.",
}


class GymnasiumSettings(EnvSettings):
    """Settings of the adapter; the environment's settings are its `arguments`."""

    id: Annotated[str, TextRole.PLAIN] = Field(
        "FrozenLake-v1", description="Id of the environment, as `gymnasium.make` reads it.", max_length=100
    )
    arguments: Arguments = Field(
        {}, description="Arguments of the environment, as in map_name=8x8, is_slippery=false.", max_length=20
    )
    actions: Annotated[list[str], TextRole.PLAIN] = Field(
        [], description="Names of the actions by number; empty = those that are known, or the numbers.", max_length=100
    )
    success: Literal["auto", "reward", "termination", "time_limit"] = Field(
        "auto",
        description="What counts as success. reward: the last reward is positive; termination: the rules end the "
        "episode; time_limit: they do not before the time limit; auto: as is known of it, or reward.",
    )

    @field_validator("id")
    @classmethod
    def check_id(cls, value: str) -> str:
        """Require a registered environment that is not one of Echoscope's."""
        if value.startswith(OWN_NAMESPACE):
            builtin_name = value.removeprefix(OWN_NAMESPACE).rpartition("-")[0]
            raise ValueError(f"{value} is an environment of Echoscope: choose {builtin_name} as environment.name")
        if value not in gymnasium.registry:
            raise ValueError(no_such_variant("Gymnasium", value, Gymnasium.variants()))
        return value

    @model_validator(mode="after")
    def check_variant(self) -> Self:
        """Require an environment that can be made and has numbered actions and readable states."""
        count = len(_inspected(self.id, as_key(self.arguments)).actions)
        if self.actions and len(self.actions) != count:
            raise ValueError(f"actions must name all {count} actions of {self.id}, not {len(self.actions)}")
        lowered = {name.strip().lower() for name in self.actions}
        if len(lowered) < len(self.actions) or "" in lowered or any("|" in name or "," in name for name in lowered):
            raise ValueError("actions must be different names without commas and strokes")
        return self


@dataclass(frozen=True)
class Inspected:
    """Facts from an environment's class and spaces."""

    kind: VariantKind | None
    actions: tuple[str, ...]
    first_action: int
    mode: str | None
    """Render mode with which it is made."""
    task: str
    limit: int | None
    """Time limit in actions."""


def make_variant(variant: str, arguments: Mapping[str, Any], mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Make the environment. Raises ValueError if a package is missing or arguments are wrong."""
    try:
        return gymnasium.make(variant, render_mode=mode, disable_env_checker=True, **arguments)
    except gymnasium.error.DependencyNotInstalled as error:
        raise ValueError(f"{variant} needs a package that is not installed: {error}") from None
    except ModuleNotFoundError as error:
        raise ValueError(f"{variant} needs the package {error.name}, which is not installed: pip install it") from None
    except Exception as error:  # noqa: BLE001 - code of other packages: its error is the reason of the refusal
        raise ValueError(f"{variant} cannot be made with these arguments: {type(error).__name__}: {error}") from None


@lru_cache(maxsize=256)
def _inspected(variant: str, arguments: str) -> Inspected:
    """Inspect a variant. Raises ValueError if the environment is unsuitable."""
    env = make_variant(variant, from_key(arguments))
    try:
        space = env.action_space
        if not isinstance(space, spaces.Discrete):
            raise ValueError(
                f"{variant} has no numbered actions (its action space is {space}), so no text can choose one"
            )
        kind = KINDS.get(f"{type(env.unwrapped).__module__}:{type(env.unwrapped).__name__}")
        mode = "ansi" if "ansi" in env.metadata.get("render_modes", ()) and kind is None else None
        if not (kind or mode or has_own_text(env) or is_readable(env.observation_space)):
            raise ValueError(
                f"{variant} shows nothing that can be read: it has no text rendering, and its states are pictures"
            )
        own_limit = env.spec.max_episode_steps if env.spec else None
        return Inspected(
            kind=kind,
            actions=kind.actions if kind else _action_names(env.unwrapped, int(space.n)),
            first_action=int(space.start),
            mode=mode,
            task=kind.task(env.unwrapped) if kind else about(env) or f"Play {variant}.",
            limit=own_limit,
        )
    finally:
        env.close()


def _action_names(env: Any, count: int) -> tuple[str, ...]:
    """Return names that the environment gives its actions, as Atari's and MiniGrid's do; else their numbers."""
    meanings: Callable[[], list[str]] | None = getattr(env, "get_action_meanings", None)
    members: Any = getattr(env, "actions", None)
    if callable(meanings):
        names = tuple(str(name).capitalize() for name in meanings())
    elif isinstance(members, EnumMeta):
        entries: list[Any] = list(members)
        names = tuple(entry.name.capitalize() for entry in entries if 0 <= int(entry.value) < count)
    else:
        names = ()
    return names if len({name.lower() for name in names}) == count else tuple(map(str, range(count)))


@lru_cache(maxsize=256)
def _description(variant: str, arguments: str, actions: tuple[str, ...], success: str) -> EnvSpec:
    inspected = _inspected(variant, arguments)
    per_turn = inspected.kind.actions_per_turn if inspected.kind else 5
    limit = min(inspected.limit or (inspected.kind.most_actions if inspected.kind else 100), MAX_ACTIONS)
    return EnvSpec(
        name="Gymnasium",
        title=f"{variant} (Gymnasium)",
        summary=f"{inspected.task.split('. ')[0].rstrip('.')}.",
        instruction=inspected.task,
        vocabulary=inspected.kind.vocabulary if inspected.kind else {},
        actions=actions or inspected.actions,
        max_turns=min(MAX_TURNS, math.ceil(limit / per_turn)),
        max_actions_per_turn=per_turn,
        max_actions=limit,
        success=RULES[_rule(inspected, success)],
    )


def _rule(inspected: Inspected, success: str) -> SuccessRule:
    chosen: dict[str, SuccessRule] = {rule: rule for rule in RULES}
    return chosen.get(success) or (inspected.kind.success if inspected.kind else "reward")


class Gymnasium(ObservedEnv):
    """An environment of Gymnasium, or of a package that registers its environments there.

    `seed` goes to its `reset`; afterwards its generator is replaced by a generator from the dynamics seed.
    """

    Settings: ClassVar[type[EnvSettings]] = GymnasiumSettings
    settings: GymnasiumSettings

    @classmethod
    def describe(cls, settings: EnvSettings) -> EnvSpec:
        assert isinstance(settings, GymnasiumSettings)
        return _description(settings.id, as_key(settings.arguments), tuple(settings.actions), settings.success)

    @classmethod
    @lru_cache(maxsize=1)
    def variants(cls) -> dict[str, str]:
        groups = {}
        for identity, spec in gymnasium.registry.items():
            source = spec.entry_point if isinstance(spec.entry_point, str) else ""
            if identity.startswith(OWN_NAMESPACE) or not source or source.startswith(_UNSUITABLE):
                continue
            if identity not in _CONTINUOUS:
                package, *parts = source.partition(":")[0].split(".")
                groups[identity] = parts[1].replace("_", " ") if package == "gymnasium" else package
        return dict(sorted(groups.items(), key=lambda item: (item[1] != "toy text", item[1], item[0])))

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self._variant = _inspected(self.settings.id, as_key(self.settings.arguments))
        self.env_spec = self.describe(self.settings)
        self._rule = _rule(self._variant, self.settings.success)
        self._env = make_variant(self.settings.id, self.settings.arguments, self._variant.mode)
        self.action_space: ActionNames = ActionNames(self.env_spec.actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(2**62)) if seed is None else seed
        dynamics = read_options(options).get("dynamics_seed")
        self._observation, _ = self._env.reset(seed=chosen)
        self.reseed(chosen if dynamics is None else int(dynamics))
        self._over = self._success = False
        self._text = self._read()
        return self._text, self._info(effective=False)

    def reseed(self, seed: int) -> None:
        sequence = np.random.SeedSequence([seed, Stream.DYNAMICS])
        self._env.unwrapped.np_random = np.random.Generator(np.random.PCG64(sequence))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        previous_text = self._text_before_step()
        if (name := self.action_space.action_name(action)) is None:
            return previous_text, 0.0, False, False, self._info(effective=False, valid=False)
        number = self.action_space.names.index(name) + self._variant.first_action
        self._observation, reward, terminated, truncated, _ = self._env.step(number)
        self._text = self._read()
        self._over = bool(terminated or truncated)
        match self._rule:
            case "reward":
                self._success = self._over and float(reward) > 0
            case "termination":
                self._success = bool(terminated)
            case "time_limit":
                self._success = bool(truncated) and not terminated
        info = self._info(effective=self._text != previous_text or bool(terminated))
        return self._text, float(reward), bool(terminated), bool(truncated), info

    def _read(self) -> str:
        """Return the state as text: drawn here for known environments, else their text rendering or observation."""
        if self._variant.kind:
            return self._variant.kind.text(self._env.unwrapped, self._observation)
        if self._variant.mode:
            return without_styles(_as_text(self._env.render()))
        if has_own_text(self._env):
            return "\n".join([*_texts_within(self._observation), without_styles(str(self._env.unwrapped))])
        space = self._env.observation_space
        state = observation_text(self._observation)
        return f"state {state} of {space.n}" if isinstance(space, spaces.Discrete) else state

    def board(self) -> GridBoard | TextBoard:
        """Return a grid if the variant has a known one, else the text."""
        kind = self._variant.kind
        if kind and kind.board:
            return kind.board(self._env.unwrapped, self._observation)
        return super().board()

    def close(self) -> None:
        self._env.close()


def _as_text(rendering: Any) -> str:
    if isinstance(rendering, list):
        rendering = rendering[-1] if rendering else ""
    return rendering if isinstance(rendering, str) else getattr(rendering, "getvalue", lambda: str(rendering))()


def _texts_within(observation: Any) -> list[str]:
    """Return texts in an observation, such as the mission of MiniGrid."""
    if not isinstance(observation, dict):
        return []
    return [f"{key}: {value}" for key, value in observation.items() if isinstance(value, str)]
