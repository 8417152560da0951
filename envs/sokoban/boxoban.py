"""Boxoban environment: Sokoban on levels from files, DeepMind's or others, or on generated rooms of that kind."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from envs.base import EnvSettings
from envs.sokoban.level_files import find_levels, fingerprint
from envs.sokoban.levels import Level
from envs.sokoban.sokoban_env import Sokoban, SokobanSettings
from envs.support.rng import SeededRng, Stream
from envs.text_roles import TextRole

VARIABLE = "ECHOSCOPE_BOXOBAN_LEVELS"
"""Environment variable with the file or folder of levels, used if the setting `path` is empty."""


class BoxobanSettings(SokobanSettings):
    """Source of the levels."""

    path: Annotated[str, TextRole.PATH] = Field(
        "",
        max_length=4096,
        description=f"File of levels (Boxoban or XSB text), or a folder of such files; empty = the file or folder that "
        f"${VARIABLE} names, or else generated rooms. What follows about rooms is for generated ones.",
    )
    size: int = Field(10, ge=5, le=20, description="Cells along each side of a generated room, walls included.")
    boxes: int = Field(4, ge=1, le=4, description="Boxes of a generated room, and targets for them.")
    min_length: int = Field(12, ge=1, le=100, description="Shortest solution of a generated room, in actions.")
    max_length: int = Field(40, ge=1, le=100, description="Longest solution of a generated room, in actions.")
    max_steps: int | None = Field(
        120, ge=1, description="Actions after which the environment itself ends the episode; empty = never."
    )


class Boxoban(Sokoban):
    """Push four boxes onto their targets. The seed selects a level, all of them equally likely.

    A path in the settings is read immediately, the environment variable's path at the first reset; neither is read
    again by this instance. Raises LevelFileError naming the file, the faulty levels and the reasons.
    """

    Settings: ClassVar[type[EnvSettings]] = BoxobanSettings
    settings: BoxobanSettings
    NAME = "Boxoban"
    SUMMARY = "Sokoban with four boxes on levels from files, DeepMind's Boxoban or your own, or on generated rooms."

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        instruction = "Push every box onto a target. Boxes can be pushed, never pulled."
        self.env_spec = self.env_spec.model_copy(
            update={"instruction": instruction, "max_turns": 24, "max_actions_per_turn": 5, "max_actions": 120}
        )
        self._choices = _choices(self.settings.path) if self.settings.path else None

    def _draw(self, seed: int) -> Level:
        if self._choices is None:
            path = os.environ.get(VARIABLE, "")
            if not path:
                return super()._draw(seed)
            self._choices = _choices(path)
        return SeededRng(seed, Stream.START).choice(self._choices.levels)


@dataclass(frozen=True)
class _Choices:
    """The levels to choose from, shared by copies of an environment."""

    levels: list[Level]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _choices(path: str) -> _Choices:
    return _load_choices(path, fingerprint(path))


@lru_cache(maxsize=8)
def _load_choices(path: str, state: tuple[tuple[str, int, int], ...]) -> _Choices:
    """Return the levels of the path, cached by its fingerprint for all environments."""
    return _Choices(find_levels(path))
