"""Gymnasium spaces of text environments: named actions, any text, and texts over an alphabet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces


class ActionNames(spaces.Space[str]):
    """Actions by name, case-insensitive; `sample` returns names as written in the environment."""

    def __init__(self, names: Sequence[str], seed: int | np.random.Generator | None = None) -> None:
        super().__init__(dtype=str, seed=seed)
        self.names = tuple(names)
        self._by_key = {name.lower(): name for name in self.names} | {name: name for name in self.names}

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def action_name(self, text: str) -> str | None:
        """Return the action's name as written in the environment, or None for an unknown action."""
        return self._by_key.get(text) or self._by_key.get(text.strip().lower())

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and self.action_name(x) is not None

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Return a random name. Masks are not supported: every action is allowed in every state."""
        if mask is not None or probability is not None:
            raise ValueError("the action names take neither a mask nor probabilities")
        return self.names[int(self.np_random.integers(len(self.names)))]

    def __repr__(self) -> str:
        return f"ActionNames({', '.join(self.names)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionNames) and other.names == self.names


class AnyText(spaces.Space[str]):
    """Any text, for environments without named actions; `sample` returns short texts of printable ASCII."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Return a random text of up to 20 characters. Masks are not supported: any text is allowed in every state."""
        if mask is not None or probability is not None:
            raise ValueError("any text takes neither a mask nor probabilities")
        codes = self.np_random.integers(32, 127, size=int(self.np_random.integers(21)))
        return "".join(map(chr, codes))

    def __repr__(self) -> str:
        return "AnyText()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText)


def text_space(alphabet: Iterable[str], max_length: int) -> spaces.Text:
    """Return the space of texts of these characters up to that length, including line breaks."""
    return spaces.Text(max_length=max_length, min_length=0, charset=frozenset("".join(alphabet)) | {"\n"})
