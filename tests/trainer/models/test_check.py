"""Folders of models that are not complete are refused with what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tests.trainer.models import tiny_gguf
from trainer.models.check import check_folder
from trainer.models.importing import import_model
from trainer.models.store import ModelStoreError

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files of an installed model, by name."""
    folder = tmp_path_factory.mktemp("whole")
    words = tiny_gguf.smollm2_words(400)
    tiny_gguf.write(folder / "tiny.gguf", tiny_gguf.tiny_model("llama", len(words.tokens)), "llama", words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECHOSCOPE_MODELS", str(folder / "store"))
        installed = import_model([folder / "tiny.gguf"])
    return {file.name: file.read_bytes() for file in installed.path.iterdir()}


@pytest.fixture
def folder(whole: dict[str, bytes], tmp_path: Path) -> Path:
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def edit_weights(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def edit_config(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def without_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no configuration": (lambda folder: (folder / "config.json").unlink(), "its config.json is missing"),
    "broken configuration": (lambda folder: (folder / "config.json").write_text("{"), "config.json cannot be read"),
    "no language model": (lambda folder: edit_config(folder, model_type="vit"), "no causal language model"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "it has no \\*.safetensors file"),
    "no safetensors": (lambda folder: (folder / WEIGHTS).write_bytes(b"{}"), "is no safetensors file, or damaged"),
    "cut off": (lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-9]), "is cut off at"),
    "a weight too few": (
        lambda folder: edit_weights(folder, lambda tensors: tensors.pop("model.norm.weight")),
        "1 of its weights are missing, model.norm.weight for one",
    ),
    "another shape": (lambda folder: edit_config(folder, intermediate_size=24), "it is another model's"),
    "an index of other files": (
        lambda folder: (folder / "model.safetensors.index.json").write_text(
            '{"weight_map": {"x": "other.safetensors"}}'
        ),
        "other.safetensors is missing, which its index names",
    ),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "its tokenizer cannot be loaded"),
    "no template": (without_template, "has no chat template: it is a base model"),
}


def test_a_complete_folder_is_accepted(folder: Path) -> None:
    assert check_folder(folder) == "llama"


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_folder_lacks_is_said(fault: str, folder: Path) -> None:
    damage, message = FAULTS[fault]
    damage(folder)
    with pytest.raises(ModelStoreError, match=message):
        check_folder(folder)
