"""Keyboard shortcuts of actions: arrows and letters for directions, numbers otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DIRECTIONS = {
    "up": ("ArrowUp", "w"),
    "left": ("ArrowLeft", "a"),
    "down": ("ArrowDown", "s"),
    "right": ("ArrowRight", "d"),
}
SIGNS = {"ArrowUp": "↑", "ArrowLeft": "←", "ArrowDown": "↓", "ArrowRight": "→"}


@dataclass(frozen=True)
class Key:
    """A button of the game. `keys`: names in browsers; `sign`: label of the key."""

    action: str
    keys: tuple[str, ...]
    sign: str
    place: str = ""

    @property
    def id(self) -> str:
        name = self.keys[0] if self.keys else self.action.replace(" ", "-").replace("'", "-prime")
        return f"play-{name.lower()}"


def make_keys(names: Sequence[str]) -> list[Key]:
    """Buttons of the actions: directions as a cross, others numbered in order."""
    if names and {name.lower() for name in names} <= DIRECTIONS.keys():
        named = {name.lower(): name for name in names}
        return [Key(named[place], keys, SIGNS[keys[0]], place) for place, keys in DIRECTIONS.items() if place in named]
    return [
        Key(name, (str(number),) if number < 10 else (), str(number) if number < 10 else "")
        for number, name in enumerate(names, 1)
    ]
