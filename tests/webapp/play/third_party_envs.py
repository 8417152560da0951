"""Third-party environments for the play tests, independent of the site."""

from __future__ import annotations

from typing import ClassVar

from envs.base import EnvSettings
from tests.envs.broken_env import Trouble, TroubleSettings


class StuckSettings(TroubleSettings):
    """Hangs at its second step."""

    when: str = "step"
    how: str = "loop"


class Stuck(Trouble):
    """Blocks forever."""

    Settings: ClassVar[type[EnvSettings]] = StuckSettings
