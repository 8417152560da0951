"""Registry of environments: built-in environments, adapters for other packages, and entry points "echoscope.envs".

Built-in modules and adapters are imported when first used.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import gymnasium

from envs.adapters.packages import ADAPTERS, is_installed, needs_variant, no_default_variant, not_installed
from envs.base import ArmsBoard, Claim, EnvSettings, EnvSpec, GridBoard, Hint, PageBoard, TextBoard, TextEnv

__all__ = ["needs_variant", "no_default_variant"]  # the adapters' functions, for users of the registry
GROUP = "echoscope.envs"
MAX_CLAIM_TEXT = 20_000
"""Characters of a thought that are compared with the state."""
BUILT_IN = {
    "Sokoban": "envs.sokoban.sokoban_env:Sokoban",
    "LargeSokoban": "envs.sokoban.sokoban_env:LargeSokoban",
    "SokobanNewVocab": "envs.sokoban.sokoban_env:SokobanNewVocab",
    "Boxoban": "envs.sokoban.boxoban:Boxoban",
    "FrozenLake": "envs.frozen_lake:FrozenLake",
    "Bandit": "envs.bandit:Bandit",
    "BanditRev": "envs.bandit:BanditRev",
    "BanditTest": "envs.bandit:BanditTest",
    "WebShop": "envs.webshop.webshop_env:WebShop",
    "Countdown": "envs.countdown:Countdown",
    "MetaMathQA": "envs.metamathqa:MetaMathQA",
    "Sudoku": "envs.puzzles.sudoku:Sudoku",
    "Game2048": "envs.puzzles.game_2048:Game2048",
    "RubiksCube": "envs.puzzles.rubiks_cube:RubiksCube",
    "ToolCalculator": "envs.tools.calculator_env:ToolCalculator",
    "ToolPython": "envs.tools.python_env:ToolPython",
    "ToolSearch": "envs.tools.search_env:ToolSearch",
    "ToolMCP": "envs.tools.mcp_env:ToolMCP",
}


def names() -> list[str]:
    """Return names of all usable environments: built-in, from adapters of installed packages, and from entry points."""
    return [*BUILT_IN, *(name for name in ADAPTERS if is_installed(name)), *_plugins()]


def missing_adapters() -> dict[str, str]:
    """Return adapters whose package is not installed, each with the sentence that says how to install it."""
    return {name: not_installed(name) for name in ADAPTERS if not is_installed(name)}


def spec(name: str, settings: Mapping[str, Any] | None = None) -> EnvSpec:
    """Describe an environment with these settings. Raises ValueError for an unknown name or invalid settings."""
    env_class = environment_class(name)
    return env_class.describe(env_class.Settings.model_validate(dict(settings or {})))


def adapter_settings(name: str) -> type[EnvSettings]:
    """Return the settings model of an adapter, whether or not its package is installed."""
    return _load(ADAPTERS[name].target).Settings


def variants(name: str) -> dict[str, str]:
    """Return variants of an adapter by id, with a short text on each; empty for other environments."""
    return environment_class(name).variants() if name in names() else {}


def label(name: str, settings: Mapping[str, Any] | None = None) -> str:
    """Return the short display name; for an adapter with the variant in the settings, as in "Gymnasium Taxi-v4"."""
    if name in BUILT_IN or not (name in ADAPTERS or variants(name)):
        return name
    return f"{name} {variant}" if (variant := (settings or {}).get("id")) else name


def about(name: str) -> str:
    """Return a sentence about an environment, or an adapter's variants. Raises ValueError for an unknown name."""
    return ADAPTERS[name].about if name in ADAPTERS else spec(name).summary


def unknown(name: str) -> str:
    """Return the error sentence for a name that is not in `names()`."""
    if name in ADAPTERS:
        return not_installed(name)
    return f"unknown environment {name!r}; choose one of {', '.join(names())}"


def replay_problem(name: str, settings: Mapping[str, Any] | None = None) -> str:
    """Return `TextEnv.replay_problem` of an environment. Raises ValueError for an unknown name or invalid settings."""
    env_class = environment_class(name)
    return env_class.replay_problem(env_class.Settings.model_validate(dict(settings or {})))


def settings_model(name: str) -> type[EnvSettings]:
    """Return the settings model of an environment. Raises ValueError for an unknown name."""
    return environment_class(name).Settings


def make(name: str, settings: dict[str, Any] | None = None) -> TextEnv:
    """Make an environment. Raises ValueError for an unknown name or invalid settings."""
    env_class = environment_class(name)
    return env_class(env_class.Settings.model_validate(settings or {}))


def make_for_gymnasium(name: str, settings: dict[str, Any] | None = None, render_mode: str | None = "ansi") -> TextEnv:
    """Entry point of `gymnasium.make("echoscope/<name>-v0", settings=…)`. Text ("ansi") is the only render mode."""
    if render_mode not in (None, "ansi"):
        raise ValueError(f"{name} renders as text: render_mode must be 'ansi', not {render_mode!r}")
    return make(name, settings)


def environment_class(name: str) -> type[TextEnv]:
    """Return the class of an environment.

    Raises ValueError for an unknown name, with the choices or what to install.
    """
    if name in BUILT_IN:
        return _load(BUILT_IN[name])
    if name in ADAPTERS and is_installed(name):
        return _load(ADAPTERS[name].target)
    plugins = _plugins()
    if name not in plugins:
        raise ValueError(unknown(name))
    return plugins[name]


def _load(target: str) -> type[TextEnv]:
    module, _, attribute = target.partition(":")
    env_class: type[TextEnv] = getattr(import_module(module), attribute)
    return env_class


def read_claims(
    name: str, thought: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard | None
) -> list[Claim] | None:
    """Return the claims in the first MAX_CLAIM_TEXT characters of a thought, in order.

    None without a board, for an unknown environment, and for one that compares nothing or fails in it: claims are shown
    and counted, and never end a trajectory.
    """
    if board is None:
        return None
    try:
        reader = environment_class(name).read_claims
    except ValueError:
        return None
    try:
        return reader(thought[:MAX_CLAIM_TEXT], board)
    except Exception as error:  # noqa: BLE001 - third-party packages may fail in any way
        warnings.warn(
            f"{name} could not compare a thought with its state ({type(error).__name__}: {error})",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def action_values(
    name: str, board: GridBoard | ArmsBoard | PageBoard | TextBoard, settings: Mapping[str, Any], actions_left: int
) -> dict[str, float] | None:
    """Return `TextEnv.action_values` of an environment; None if it is unknown or fails in it."""
    try:
        env_class = environment_class(name)
        return env_class.action_values(board, env_class.Settings.model_validate(dict(settings)), actions_left)
    except ValueError:
        return None
    except Exception as error:  # noqa: BLE001 - third-party packages may fail in any way
        warnings.warn(
            f"{name} could not rate the actions of a state ({type(error).__name__}: {error})",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def best_chance(
    name: str,
    hint: Hint | None,
    board: GridBoard | ArmsBoard | PageBoard | TextBoard,
    settings: Mapping[str, Any],
    actions_left: int,
) -> float | None:
    """Return the chance of success of a state if optimal play follows within the actions left; None if unknown.

    Args:
        name: an environment.
        hint: its solver's advice about the state.
        board: the state.
        settings: settings of the environment.
        actions_left: the agent's budget.
    """
    if hint is None or hint.solvable == "unknown":
        return None
    if hint.solvable == "no":
        return 0.0
    if hint.distance is not None:
        return float(hint.distance <= actions_left)
    chances = action_values(name, board, settings, actions_left)
    return max(chances.values()) if chances else None


@lru_cache(maxsize=1)
def _plugins() -> dict[str, type[TextEnv]]:
    """Return environments of installed packages. Unusable ones are skipped with a warning."""
    plugins: dict[str, type[TextEnv]] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if entry.name in BUILT_IN or entry.name in ADAPTERS or entry.name in plugins:
            _warn_skipped(entry, "an environment of this name exists already")
            continue
        try:
            env_class = entry.load()
        except Exception as error:  # noqa: BLE001 - third-party packages may fail in any way; the others stay usable
            _warn_skipped(entry, f"it cannot be loaded ({type(error).__name__}: {error})")
            continue
        if not (isinstance(env_class, type) and issubclass(env_class, TextEnv)):
            _warn_skipped(entry, "it is not a subclass of envs.base.TextEnv")
            continue
        plugins[entry.name] = env_class
    return plugins


def _warn_skipped(entry: EntryPoint, reason: str) -> None:
    package = entry.dist.name if entry.dist else "an installed package"
    warnings.warn(
        f"environment {entry.name!r} ({entry.value}) of {package} is left out: {reason}", RuntimeWarning, stacklevel=3
    )


def register_with_gymnasium() -> None:
    """Register every environment with Gymnasium as `echoscope/<name>-v0`.

    `gymnasium.make` and `gymnasium.make_vec` take the environment's `settings`.
    """
    for name in names():
        identity = f"echoscope/{name}-v0"
        if identity not in gymnasium.registry:
            gymnasium.register(
                identity,
                entry_point="envs.registry:make_for_gymnasium",
                kwargs={"name": name},
                disable_env_checker=True,
            )
