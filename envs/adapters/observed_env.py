"""Environments of other packages whose state is the text of their newest observation."""

from __future__ import annotations

from typing import Any

from gymnasium.error import ResetNeeded

from envs.base import EnvSettings, GridBoard, StepInfo, TextBoard, TextEnv
from envs.spaces import AnyText


class ObservedEnv(TextEnv):
    """Stores the newest text, and whether the episode is over and has succeeded; subclasses set them.

    A subclass whose actions have names replaces `action_space`.
    """

    def __init__(self, settings: EnvSettings | None = None, **overrides: Any) -> None:
        super().__init__(settings, **overrides)
        self.action_space = AnyText()
        self.observation_space = AnyText()
        self._text: str | None = None
        self._over = False
        self._success = False

    def _text_before_step(self) -> str:
        """Return the text that the action answers. Raises ResetNeeded before the first reset and after the episode."""
        if self._text is None:
            raise ResetNeeded("call reset() before the first step()")
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before the next step()")
        return self._text

    def render(self) -> str:
        """Return the newest text. Raises ResetNeeded before the first reset."""
        if self._text is None:
            raise ResetNeeded("call reset() first")
        return self._text

    def board(self) -> GridBoard | TextBoard:
        """Return the newest text as a board."""
        return TextBoard(text=self.render())

    def _info(self, *, effective: bool, valid: bool = True) -> dict[str, Any]:
        return StepInfo(success=self._success, effective=effective, valid=valid).model_dump()
