"""Further environments of a run: `environment.mix`."""

from __future__ import annotations

from typing import Any

from trainer.config import files
from trainer.config.run import RunConfig

MIX: list[dict[str, Any]] = [
    {
        "name": "FrozenLake",
        "share": 0.25,
        "settings": {"size": 5, "slippery": False},
        "max_turns": 3,
        "max_actions_per_turn": None,
        "max_actions": None,
    },
    {
        "name": "Bandit",
        "share": 0.25,
        "settings": {},
        "max_turns": None,
        "max_actions_per_turn": None,
        "max_actions": 2,
    },
]


def test_a_mixture_is_set_on_the_command_line_as_a_list_in_yaml_or_json() -> None:
    expected = RunConfig.model_validate({"environment": {"mix": [{"name": "Bandit", "share": 0.5}]}})
    for text in ("[{name: Bandit, share: 0.5}]", '[{"name": "Bandit", "share": 0.5}]'):
        assert files.with_overrides(RunConfig(), [f"environment.mix={text}"]) == expected


def test_entries_of_a_mixture_are_dumped_in_the_order_of_their_fields() -> None:
    stored = {"environment": {"mix": [dict(reversed(MIX[0].items()))]}}
    (entry,) = files.ordered_dump(stored)["environment"]["mix"]
    assert list(entry) == list(MIX[0])
