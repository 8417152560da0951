"""Architectures that vLLM lists, as the table of the documentation says."""

from __future__ import annotations

import vllm
from transformers import AutoModelForCausalLM
from vllm import ModelRegistry

from tests.trainer.policy.architectures import ARCHITECTURES, COLUMNS, DOCS, documented


def test_the_column_is_vllms_own_list() -> None:
    listed, column = set(ModelRegistry.get_supported_archs()), COLUMNS.index("vLLM")
    shown = {name: cells[column] for name, cells in documented().items()}
    classes = AutoModelForCausalLM._model_mapping
    for one in ARCHITECTURES:
        if one.loads:
            assert shown[one.name] == ("yes" if classes[one.config_class].__name__ in listed else "no"), one.name


def test_the_version_is_that_of_the_list() -> None:
    assert f"vLLM {'.'.join(vllm.__version__.split('.')[:2])} lists" in DOCS.read_text()
