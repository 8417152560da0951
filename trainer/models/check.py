"""Checks of a model's folder before it is installed."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainer.models.progress import FetchProgress, Report
from trainer.models.store import ModelStoreError

_BLOCK = 1 << 22
_MAX_HEADER = 100_000_000


def digests(paths: Mapping[str, Path], report: Report) -> dict[str, str]:
    """Return the SHA-256 of each file by the given name; reports the stage `check`."""
    total, done, result = sum(path.stat().st_size for path in paths.values()), 0, {}
    for name, path in paths.items():
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                done += len(block)
                report(FetchProgress("check", done, total))
        result[name] = digest.hexdigest()
    return result


def check_folder(folder: Path) -> str:
    """Check that a folder is a causal LM whose weights are complete and whose tokenizer can chat.

    No weight is read: names and shapes are compared with those of the architecture.

    Returns:
        The `model_type` of its configuration.
    Raises:
        ModelStoreError: a file is missing, truncated or of a kind that is not loaded.
    """
    from transformers import AutoConfig, AutoTokenizer

    weights = dict(weight_shapes(folder))
    if not (folder / "config.json").is_file():
        raise ModelStoreError("its config.json is missing: it is no complete checkpoint")
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelStoreError(f"its config.json cannot be read: {_first_line(error)}") from error
    expected = _expected_shapes(config)
    if config.get_text_config().tie_word_embeddings:
        expected.pop("lm_head.weight", None)
    if missing := sorted(expected.keys() - weights.keys()):
        raise ModelStoreError(f"{len(missing)} of its weights are missing, {missing[0]} for one: a file is incomplete")
    for name, shape in expected.items():
        if weights[name] != shape:
            raise ModelStoreError(f"{name} has the shape {weights[name]} instead of {shape}: it is another model's")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # parsers of broken tokenizer files raise anything, even bare Exception
        raise ModelStoreError(f"its tokenizer cannot be loaded: {tokenizer_problem(error)}") from error
    if tokenizer.chat_template is None:
        raise ModelStoreError(
            "its tokenizer has no chat template: it is a base model. Choose an instruction-tuned (chat) model, or add "
            "the template of a family with --template chatml, gemma or llama3"
        )
    _check_template(tokenizer)
    return str(config.get_text_config().model_type)


def _check_template(tokenizer: Any) -> None:
    """Raise ModelStoreError for a chat template that cannot be parsed."""
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
    except TemplateSyntaxError as error:
        raise ModelStoreError(
            f"its chat template has an error in line {error.lineno} ({error.message}): correct it, or replace it by "
            "the template of a family with --template chatml, gemma or llama3"
        ) from error
    except (TemplateError, TypeError, ValueError):  # refuses this dialogue; before a run starts, its own are tried
        return


def weight_shapes(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of each tensor in the safetensors files of a folder.

    Raises:
        ModelStoreError: there are none, one is truncated, or the index names a file that is missing.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelStoreError("it has no *.safetensors file; no other format of weights is loaded")
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if absent := sorted(named - {file.name for file in files}):
            raise ModelStoreError(f"{', '.join(absent)} is missing, which its index names")
    for file in files:
        for name, entry in _header(file).items():
            if name != "__metadata__":
                yield name, tuple(entry["shape"])


def _header(path: Path) -> dict[str, Any]:
    """Return the header of a safetensors file. Raises ModelStoreError if the file is truncated."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else _MAX_HEADER + 1
        text = file.read(length) if length <= _MAX_HEADER else b""
    try:
        header: dict[str, Any] = json.loads(text)
        end = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelStoreError(f"{path.name} is no safetensors file, or damaged: get it again") from error
    if size < 8 + length + end:
        raise ModelStoreError(f"{path.name} is cut off at {size:,} of {8 + length + end:,} bytes: get it again")
    return header


def _expected_shapes(config: Any) -> dict[str, tuple[int, ...]]:
    """Return name and shape of each weight of the architecture, without allocating memory for them."""
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except (ValueError, TypeError, RuntimeError, ImportError) as error:
        raise ModelStoreError(f"it is no causal language model of transformers: {_first_line(error)}") from error
    return {name: tuple(weight.shape) for name, weight in model.named_parameters(remove_duplicate=False)}


def tokenizer_problem(error: Exception) -> str:
    """Return why transformers cannot load a tokenizer, in one sentence."""
    if "backend tokenizer" in str(error):  # followed by advice to install a package
        return (
            "there is no tokenizer.json, the only form of a tokenizer that is read; add that of the original model, "
            "with its tokenizer_config.json and chat template"
        )
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
