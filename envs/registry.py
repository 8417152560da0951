"""Which environments there are: the built-in ones and those that installed packages offer under "echoscope.envs".

What an environment is stands in base.py. Built-in modules are imported when first asked for.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import gymnasium

from envs.base import EnvSettings, EnvSpec, TextEnv

GROUP = "echoscope.envs"
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
}


def names() -> list[str]:
    """Names of all environments: the built-in ones first, then those of installed packages."""
    return [*BUILT_IN, *_offered()]


def spec(name: str) -> EnvSpec:
    """What the environment is, with its default settings. Raises ValueError naming the choices for an unknown name."""
    return make(name).world


def settings_model(name: str) -> type[EnvSettings]:
    """The model of the environment's settings. Raises ValueError naming the choices for an unknown name."""
    return environment_class(name).Settings


def make(name: str, settings: dict[str, Any] | None = None) -> TextEnv:
    """A new environment of that name. Raises ValueError for an unknown name or settings that do not fit."""
    kind = environment_class(name)
    return kind(kind.Settings.model_validate(settings or {}))


def make_for_gymnasium(name: str, settings: dict[str, Any] | None = None, render_mode: str | None = "ansi") -> TextEnv:
    """What `gymnasium.make("echoscope/<name>-v0", settings=…)` calls. Text ("ansi") is the only way of rendering."""
    if render_mode not in (None, "ansi"):
        raise ValueError(f"{name} renders as text: render_mode must be 'ansi', not {render_mode!r}")
    return make(name, settings)


def environment_class(name: str) -> type[TextEnv]:
    """The class behind a name. Raises ValueError naming the choices for an unknown name."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found: type[TextEnv] = getattr(import_module(module), attribute)
        return found
    offered = _offered()
    if name not in offered:
        raise ValueError(f"unknown environment {name!r}; choose one of {', '.join(names())}")
    return offered[name]


@lru_cache(maxsize=1)
def _offered() -> dict[str, type[TextEnv]]:
    """Environments of installed packages. One that cannot be used is left out with a warning that names it."""
    found: dict[str, type[TextEnv]] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if entry.name in BUILT_IN or entry.name in found:
            _leave_out(entry, "an environment of this name exists already")
            continue
        try:
            kind = entry.load()
        except Exception as error:  # noqa: BLE001 - a package nobody here wrote may fail in any way; the rest goes on
            _leave_out(entry, f"it cannot be loaded ({type(error).__name__}: {error})")
            continue
        if not (isinstance(kind, type) and issubclass(kind, TextEnv)):
            _leave_out(entry, "it is not a subclass of envs.base.TextEnv")
            continue
        found[entry.name] = kind
    return found


def _leave_out(entry: EntryPoint, reason: str) -> None:
    package = entry.dist.name if entry.dist else "an installed package"
    warnings.warn(
        f"environment {entry.name!r} ({entry.value}) of {package} is left out: {reason}", RuntimeWarning, stacklevel=3
    )


def register_with_gymnasium() -> None:
    """Make every environment known to Gymnasium as `echoscope/<name>-v0`.

    `settings` is a keyword of its make() and make_vec(); a batch takes those of envs.vector.TextVectorEnv too.
    """
    for name in names():
        identity = f"echoscope/{name}-v0"
        if identity not in gymnasium.registry:
            gymnasium.register(
                identity,
                entry_point="envs.registry:make_for_gymnasium",
                vector_entry_point="envs.vector.gymnasium_env:make_for_gymnasium",
                kwargs={"name": name},
                disable_env_checker=True,
            )
