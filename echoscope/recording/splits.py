"""The split that the name of a folder, a file or a field refers to."""

from __future__ import annotations

import re
from typing import Literal

Split = Literal["train", "eval"]
_EVALUATION = re.compile(
    r"test|testing|dev|(held|hold)[_-]?out|(val|valid|validation|evals?|evaluations?)([_-].*)?"
    r"|.*[_-](val|validation|evals?)"
)
_STATED_EVALUATION = re.compile(
    r"(test|testing|dev|(held|hold)[_-]?out)[_-].*|.*[_-](test|testing|dev|(held|hold)[_-]?out)"
)
"""Names that are splits in a field, such as AppWorld's test_normal; folders of programs are called test_… as well."""
_TRAINING = re.compile(r"train(ing)?([_-].*)?|.*[_-]train(ing)?")


def split_named(name: str) -> Split | None:
    """Return the split of a name in any case, such as “Validation” or “train_0”; None if it names no split."""
    name = name.strip().lower()
    if _TRAINING.fullmatch(name):
        return "train"
    return "eval" if _EVALUATION.fullmatch(name) else None


def split_stated(name: str) -> Split | None:
    """Return the split of a name in a field that states splits, where parts of test sets are evaluations, too."""
    split = split_named(name)
    return "eval" if split is None and _STATED_EVALUATION.fullmatch(name.strip().lower()) else split
