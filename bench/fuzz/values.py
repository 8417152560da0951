"""Odd values for parameters, paths, headers, JSON and journals."""

from __future__ import annotations

import random
from typing import Any

TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "1",
    "999999999999999999999",
    "1e309",
    "NaN",
    "-inf",
    "٣",
    "true",
    "null",
    "[]",
    "{}",
    "\0",
    "a\0b",
    "\ud7ff\ue000",
    "é" * 300,
    "😀" * 50,
    "\u202egnp",
    "a" * 5000,
    "/",
    "//example.org",
    "http://example.org/",
    "javascript:alert(1)",
    "../../../etc/passwd",
    "..",
    ".",
    "foo",
    "%00",
    "%",
    "_",
    "\\",
    "'",
    '"',
    "' OR 1=1 --",
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "a,b,,c",
    "2026-02-30",
    "2026-01-01T00:00:00Z",
    "9999-12-31",
    "0001-01-01",
    "\r\nX-Injected: 1",
    "on",
    "environment.name=Nothing",
    "[" * 400,
    "a: &x [*x]",
    "1;2",
    "1:2:3",
    "--",
    "*",
)
SCALARS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    10**30,
    0.5,
    -0.0,
    1e308,
    [],
    {},
    [[]],
    {"a": {"b": []}},
    [None],
)


def text(dice: random.Random) -> str:
    """Return an odd text."""
    return dice.choice(TEXTS)


def scalar(dice: random.Random) -> Any:
    """Return an odd JSON value."""
    return dice.choice(SCALARS) if dice.random() < 0.5 else text(dice)


def mutated_text(dice: random.Random, value: str) -> str:
    """Return a value with one change, or an odd value instead."""
    if not value or dice.random() < 0.5:
        return text(dice)
    position = dice.randrange(len(value) + 1)
    match dice.randrange(4):
        case 0:
            return value[:position] + dice.choice(TEXTS[:20]) + value[position:]
        case 1:
            return value[:position] + value[position + 1 :]
        case 2:
            return value * 2
        case _:
            return value.swapcase()


def mutated(dice: random.Random, value: Any) -> Any:
    """Return a JSON value with one change somewhere in it."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key = dice.choice(sorted(value))
        changed = dict(value)
        match dice.randrange(8):
            case 0:
                del changed[key]
            case 1:
                changed[text(dice)] = changed.pop(key)
            case 2:
                changed[text(dice) or "extra"] = scalar(dice)
            case _:
                changed[key] = mutated(dice, value[key])
        return changed
    if isinstance(value, list) and value and dice.random() < 0.85:
        position = dice.randrange(len(value))
        match dice.randrange(6):
            case 0:
                return value[:position] + value[position + 1 :]
            case 1:
                return value[: position + 1] + value[position:]
            case _:
                return [*value[:position], mutated(dice, value[position]), *value[position + 1 :]]
    if isinstance(value, str) and dice.random() < 0.5:
        return mutated_text(dice, value)
    if isinstance(value, int | float) and not isinstance(value, bool) and dice.random() < 0.5:
        return dice.choice((-value, value + 1, value - 1, value * 10**6, value / 3, str(value)))
    return scalar(dice)
