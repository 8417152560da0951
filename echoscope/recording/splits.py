"""The split that the name of a folder, a file or a field refers to."""

from __future__ import annotations

import re
from typing import Literal

Split = Literal["train", "eval"]
_EVALUATION = re.compile(
    r"test|testing|dev|held[_-]?out|(val|valid|validation|evals?|evaluations?)([_-].*)?|.*[_-](val|validation|evals?)"
)
_TRAINING = re.compile(r"train(ing)?([_-].*)?|.*[_-]train(ing)?")


def split_named(name: str) -> Split | None:
    """Return the split of a name in any case, such as “Validation” or “train_0”; None if it names no split."""
    name = name.strip().lower()
    if _TRAINING.fullmatch(name):
        return "train"
    return "eval" if _EVALUATION.fullmatch(name) else None
