"""Settings under which an attempt was played."""

from __future__ import annotations

from trainer.config.run import RunConfig
from webapp.trajectories.mistakes.budgets import settings_of


def test_attempts_of_recorded_runs_keep_the_former_defaults_of_their_environments() -> None:
    data = {
        "environment": {"mix": [{"name": "LargeSokoban", "share": 0.5, "settings": {"size": 9}}]},
        "evaluation": {"suites": ["LargeSokoban:size=7"]},
    }
    new = RunConfig.model_validate(data)
    recorded = new.model_dump(mode="json")
    del recorded["environment"]["defaults_version"]
    old = RunConfig.model_validate(recorded)
    for suite, size in (("LargeSokoban:size=7", 7), ("LargeSokoban", 9)):
        assert settings_of(new, "LargeSokoban", suite) == {"size": size}
        assert settings_of(old, "LargeSokoban", suite) == {"size": size, "typical_length": None}
    assert settings_of(old, "Sokoban", "Sokoban") == {}
