"""docs/fidelity.md: its values are those of the paper presets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer.config.dotted import value_at
from trainer.config.files import PRESETS, load_preset, preset_names

TABLE = Path(__file__).parents[3] / "docs" / "fidelity.md"
ENVIRONMENTS = {
    "bandit": "Bandit",
    "sokoban": "Sokoban",
    "frozen_lake": "FrozenLake",
    "webshop": "WebShop",
    "countdown": "Countdown",
}
WAYS = {"starpo": "StarPO", "starpo_s": "StarPO-S"}
PAPER = [name for name in preset_names() if name.endswith("-paper")]
CLAUSE = re.compile(r"(?P<labels>[\w, -]*)`(?P<value>[^`]+)`")


def rows() -> dict[str, str]:
    """Setting → cell of the column “here”."""
    found: dict[str, str] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            name, _, _, here, _ = (cell.strip() for cell in line.strip("|").split("|"))
            assert name.strip("`") not in found, f"{name} is listed twice"
            found[name.strip("`")] = here
    return found


def value_in(cell: str, preset: str) -> Any:
    """The value that a cell gives for a preset: of its last clause with no label, or with labels of the preset."""
    environment, way, _ = preset.split("-")
    value: Any = ...
    for clause in cell.split("; "):
        match = CLAUSE.fullmatch(clause)
        assert match, f"unreadable: {clause!r}"
        labels = {label.strip() for label in match["labels"].split(",")} - {""}
        assert labels <= {*ENVIRONMENTS.values(), *WAYS.values()}, f"unknown label in {clause!r}"
        if not labels or labels & {ENVIRONMENTS[environment], WAYS[way]}:
            value = yaml.safe_load(match["value"])
    return value


def written(data: dict[str, Any], path: str = "") -> Iterator[str]:
    """Dotted names of the settings in a preset's file."""
    for name, value in data.items():
        if isinstance(value, dict):
            yield from written(value, f"{path}{name}.")
        else:
            yield path + name


@pytest.mark.parametrize("preset", PAPER)
def test_the_table_has_every_setting_of_a_paper_preset_with_its_value(preset: str) -> None:
    table, config = rows(), load_preset(preset).model_dump(mode="json")
    assert {name: value_in(cell, preset) for name, cell in table.items()} == {
        name: value_at(config, name) for name in table
    }
    text = (PRESETS / f"{preset}.yaml").read_text(encoding="utf-8")
    assert set(written(yaml.safe_load(text))) <= set(table)


def test_a_value_is_limited_by_the_labels_before_it() -> None:
    cell = "`5`; Bandit, Countdown `1`; StarPO-S `[a, b]`"
    presets = ("sokoban-starpo-paper", "bandit-starpo-paper", "bandit-starpo_s-paper")
    assert [value_in(cell, preset) for preset in presets] == [5, 1, ["a", "b"]]
