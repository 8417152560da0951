"""Packages whose environments are available through an adapter, and error sentences about what is missing."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

MAX_MATCHES = 3


@dataclass(frozen=True)
class AdaptedPackage:
    """A package with environments.

    Attributes:
        target: class of the adapter, `module:Class`.
        module: module that Python imports.
        requirement: package that pip installs.
        extra: extra of Echoscope that also installs it.
        about: one sentence for users.
        choice: kind of thing that the setting `id` names if there is no default for it; empty: there is a default.
    """

    target: str
    module: str
    requirement: str
    extra: str
    about: str
    choice: str = ""


ADAPTERS = {
    "Gymnasium": AdaptedPackage(
        "envs.adapters.gymnasium_adapter:Gymnasium",
        "gymnasium",
        "gymnasium",
        "envs",
        "Environments of Gymnasium, and of packages that register theirs there.",
    ),
    "ReasoningGym": AdaptedPackage(
        "envs.adapters.reasoning_gym_adapter:ReasoningGym",
        "reasoning_gym",
        "reasoning-gym",
        "reasoning-gym",
        "Questions of the generators of reasoning-gym, one turn each, judged by its scorers.",
    ),
    "TextArena": AdaptedPackage(
        "envs.adapters.textarena_adapter:TextArena",
        "textarena",
        "textarena",
        "textarena",
        "Games of TextArena for one player.",
    ),
    "Verifiers": AdaptedPackage(
        "envs.adapters.verifiers_adapter:Verifiers",
        "verifiers",
        "verifiers",
        "verifiers",
        "Environments written for verifiers, with their rewards, where text messages are enough to play them.",
        "an installed environment, as `python -m trainer environments Verifiers` lists them",
    ),
    "OpenEnv": AdaptedPackage(
        "envs.adapters.openenv_adapter:OpenEnv",
        "websockets",
        "websockets",
        "openenv",
        "Environments of OpenEnv servers, each at the address of its server.",
        "the address of an OpenEnv server, as in http://localhost:8000",
    ),
}
"""Name of the environment → its package."""


@cache
def is_installed(name: str) -> bool:
    """Return True if the package of an adapter is installed. A package installed later is found after a restart."""
    return find_spec(ADAPTERS[name].module) is not None


def not_installed(name: str) -> str:
    """Return the error sentence for an adapter without its package."""
    package = ADAPTERS[name]
    return (
        f"{name} needs the package {package.requirement}, which is not installed: pip install {package.requirement} "
        f"(or the extra of Echoscope: pip install '.[{package.extra}]')"
    )


def needs_variant(name: str) -> bool:
    """Return True if an environment's settings must have an `id`: an adapter without a default variant."""
    return name in ADAPTERS and bool(ADAPTERS[name].choice)


def no_default_variant(name: str) -> str:
    """Return the error sentence for such settings without an `id`."""
    return f"{name} has no default variant: set id in its settings to {ADAPTERS[name].choice}"


def no_such_variant(name: str, variant: str, ids: Collection[str]) -> str:
    """Return the error sentence for an unknown id, with ids of similar spelling."""
    folded = {identity.lower(): identity for identity in ids}
    near = difflib.get_close_matches(variant.lower(), list(folded), MAX_MATCHES, cutoff=0.5)
    if not near:
        near = [identity for identity in folded if variant and variant.lower() in identity][:MAX_MATCHES]
    matches = f"did you mean {' or '.join(folded[identity] for identity in near)}? " if near else ""
    return f"{name} has no {variant!r}: {matches}`python -m trainer environments {name}` lists all {len(ids)}"
