"""List of environments, and of the variants of an adapter, for `python -m trainer environments`."""

from __future__ import annotations

import envs
from trainer.config.environment import recommended_budgets


def report(name: str | None, search: str = "") -> str:
    """List all environments, or the variants of one, with lines that contain the searched word.

    Raises:
        ValueError: the environment is unknown, its package is not installed, or nothing matches.
    """
    lines = _variants(name) if name else _environments()
    matches = [line for line in lines if search.lower() in line.lower()]
    if not matches:
        raise ValueError(f"nothing here contains {search!r}")
    return "\n".join(matches)


def _environments() -> list[str]:
    names = envs.names()
    width = max(len(name) for name in [*names, *envs.missing_adapters()]) + 2
    lines = []
    for name in names:
        count = len(envs.variants(name))
        summary = envs.about(name)
        if count:
            summary += f" {count} variants: `python -m trainer environments {name}` lists them."
        lines.append(f"{name:<{width}}{summary}")
    return lines + [f"{name:<{width}}{sentence}" for name, sentence in envs.missing_adapters().items()]


def _variants(name: str) -> list[str]:
    variants = envs.variants(name)
    if not variants:
        spec, budgets = envs.spec(name), recommended_budgets(name)
        values = ", ".join(f"{budget} {value}" for budget, value in budgets.items())
        return [f"{name} has no variants: {spec.summary} Budgets: {values}."]
    width = max(map(len, variants)) + 2
    return [f"{variant:<{width}}{about}" for variant, about in variants.items()]
