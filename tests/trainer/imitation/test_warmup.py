"""Recipe of the shipped policy, as far as it can be checked without the minutes of a full build."""

from __future__ import annotations

import json

from trainer.config.run import WarmupConfig
from trainer.imitation import warmup
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy import pocket


def test_the_shipped_policy_uses_the_default_settings() -> None:
    record = json.loads((POCKET_CHECKPOINT / warmup.RECORD).read_text())
    assert record["settings"] == WarmupConfig().model_dump()
    assert record["digest"] == warmup.digest(WarmupConfig())
    assert record["command"] == "python -m trainer build-pocket"


def test_the_recipe_reproduces_the_shipped_tokenizer() -> None:
    """Independent of installed packages: a new environment must not change the pocket policy's input."""
    made = pocket.build_tokenizer(list(warmup.corpus(WarmupConfig().seed)))
    shipped = json.loads((POCKET_CHECKPOINT / "tokenizer.json").read_text())
    assert made.get_vocab() == {
        **shipped["model"]["vocab"],
        **{token["content"]: token["id"] for token in shipped["added_tokens"]},
    }
