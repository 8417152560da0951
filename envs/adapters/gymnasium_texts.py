"""Observations and renderings of Gymnasium environments as text."""

from __future__ import annotations

import inspect
import re
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

MAX_NUMBERS = 32
"""Maximum number of values that are written out; longer observations are images or similar."""
MAX_ABOUT = 600
_STYLE = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]")
_HIGHLIGHTS = {7, *range(41, 48), *range(100, 108)}


def is_readable(space: spaces.Space[Any]) -> bool:
    """Return True if observations of the space can be written as a short text."""
    match space:
        case spaces.Discrete() | spaces.Text():
            return True
        case spaces.MultiDiscrete() | spaces.MultiBinary() | spaces.Box():
            return int(np.prod(space.shape)) <= MAX_NUMBERS
        case spaces.Tuple():
            return all(map(is_readable, space.spaces))
        case spaces.Dict():
            return all(map(is_readable, space.spaces.values()))
    return False


def observation_text(observation: Any, labels: tuple[str, ...] = ()) -> str:
    """Describe an observation: `position 0.1, speed -0.02` with labels of its numbers, else the bare values."""
    match observation:
        case str():
            return observation
        case dict():
            return "\n".join(f"{key}: {observation_text(value)}" for key, value in observation.items())
        case tuple():
            return ", ".join(map(observation_text, observation))
        case np.ndarray() if observation.ndim:
            numbers = [_number(value) for value in observation.ravel().tolist()]
            if len(labels) == len(numbers):
                return ", ".join(f"{label} {number}" for label, number in zip(labels, numbers, strict=True))
            return ", ".join(numbers)
    return _number(observation.item() if isinstance(observation, np.generic | np.ndarray) else observation)


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def has_own_text(env: gymnasium.Env[Any, Any]) -> bool:
    """Return True if an environment's class defines `str`, as MiniGrid's classes do."""
    return type(env.unwrapped).__str__ not in (gymnasium.Env.__str__, object.__str__)


def without_styles(text: str) -> str:
    """Remove escape sequences from a terminal's text; highlighted parts, such as the player's cell, get brackets."""
    parts, end, marked = [], 0, False
    text = _OTHER_ESCAPES.sub("", text)
    for style in _STYLE.finditer(text):
        parts.append(text[end : style.start()])
        end = style.end()
        codes = {int(code) for code in style[1].split(";") if code}
        highlighted = bool(codes & _HIGHLIGHTS) or (marked and bool(codes) and 0 not in codes and 49 not in codes)
        if highlighted is not marked:
            parts.append("[" if highlighted else "]")
            marked = highlighted
    return ("".join(parts) + text[end:] + ("]" if marked else "")).strip("\n")


def about(env: gymnasium.Env[Any, Any]) -> str:
    """Return the description in an environment's class, shortened; empty without one."""
    text = inspect.cleandoc(type(env.unwrapped).__doc__ or "")
    match = re.search(r"^#+ *Description *\n(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    paragraph = " ".join((match[1] if match else text).strip().split("\n\n")[0].split())
    if len(paragraph) <= MAX_ABOUT:
        return paragraph
    return paragraph[: paragraph.rfind(" ", 0, MAX_ABOUT)] + " …"
