"""Stored configurations list their further environments in `environment.mix`."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import migrations

PARTS = ("others", "other_settings", "other_budgets")
BUDGETS = ("max_turns", "max_actions_per_turn", "max_actions")


def by_environment(flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{"FrozenLake.size": 5} as {"FrozenLake": {"size": 5}}."""
    nested: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        name, _, inner = key.rpartition(".")
        nested.setdefault(name, {})[inner] = value
    return nested


def joined(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The section with the entries that its former settings stand for."""
    if "mix" in environment or not any(part in environment for part in PARTS):
        return {key: value for key, value in environment.items() if key not in PARTS}
    shares, flat_settings, flat_budgets = (environment.get(part) or {} for part in PARTS)
    settings, budgets = by_environment(flat_settings), by_environment(flat_budgets)
    mix = [
        {"name": name, "share": share, "settings": settings.get(name, {})}
        | {budget: budgets.get(name, {}).get(budget) for budget in BUDGETS}
        for name, share in shares.items()
    ]
    return {key: value for key, value in environment.items() if key not in PARTS} | {"mix": mix}


def split(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The section with the former settings that its entries stand for."""
    if "mix" not in environment:
        return dict(environment)
    others: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    budgets: dict[str, Any] = {}
    for entry in environment["mix"]:
        name = entry["name"]
        others[name] = entry["share"]
        settings |= {f"{name}.{key}": value for key, value in entry.get("settings", {}).items()}
        budgets |= {f"{name}.{budget}": entry[budget] for budget in BUDGETS if entry.get(budget) is not None}
    rest = {key: value for key, value in environment.items() if key != "mix"}
    return rest | dict(zip(PARTS, (others, settings, budgets), strict=True))


def convert(apps, alias: str, section: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    runs = apps.get_model("runs", "Run").objects.using(alias)
    for run in runs.only("config").iterator(chunk_size=200):
        environment = run.config.get("environment")
        if isinstance(environment, dict) and (current := section(environment)) != environment:
            runs.filter(pk=run.pk).update(config=run.config | {"environment": current})


def forwards(apps, editor):
    convert(apps, editor.connection.alias, joined)


def backwards(apps, editor):
    convert(apps, editor.connection.alias, split)


class Migration(migrations.Migration):
    dependencies = [("runs", "0009_renamed_settings_and_metrics")]

    operations = [migrations.RunPython(forwards, backwards)]
