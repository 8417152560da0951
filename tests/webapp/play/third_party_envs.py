"""Environments of a stranger for the tests of playing. Nothing of the site is loaded here."""

from __future__ import annotations

from typing import ClassVar

from envs.base import EnvSettings
from tests.envs.broken_env import Trouble, TroubleSettings


class StuckSettings(TroubleSettings):
    """Hangs at its second step."""

    when: str = "step"
    how: str = "loop"


class Stuck(Trouble):
    """Never answers again."""

    Settings: ClassVar[type[EnvSettings]] = StuckSettings
