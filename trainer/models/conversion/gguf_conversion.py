"""Conversion of a GGUF model into a transformers folder of safetensors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file

from trainer.models.conversion import families, gguf_config, gguf_tokenizer, gguf_weights
from trainer.models.conversion.gguf_file import GgufModel, open_gguf
from trainer.models.progress import FetchProgress, Report
from trainer.models.store import ModelStoreError

Precision = Literal["bfloat16", "float32"]
_SHARD_BYTES = 2_000_000_000
INDEX_FILE = "model.safetensors.index.json"


@dataclass(frozen=True)
class Conversion:
    """What a conversion found in the file, for the record.

    Attributes:
        title: name that the file gives itself, or "".
    """

    architecture: str
    quantisation: str
    licence: str
    licence_url: str
    title: str


def convert(
    paths: Sequence[Path], folder: Path, report: Report, precision: Precision, template: str = ""
) -> Conversion:
    """Write a GGUF file, or the shards of one model, as a transformers folder.

    Args:
        folder: to create.
        template: key of `families.TEMPLATES` for a file without a chat template.
    Raises:
        ModelStoreError: the file is incomplete or cannot be converted; checked before weights are written.
    """
    model = open_gguf(paths)
    family = families.get_family(model.architecture)
    for needed in (gguf_weights.EMBEDDING, "blk.0.attn_q.weight"):
        if needed not in model.tensors:
            raise ModelStoreError(f"the GGUF file lacks {needed}: it is no complete language model")
    gguf_weights.check_formats(model)
    rows, _ = reversed(model.tensors[gguf_weights.EMBEDDING].shape.tolist())
    tied = gguf_weights.is_tied(model)
    config = gguf_config.read_config(model, family, tied=tied, vocabulary=int(rows))
    tensors = gguf_weights.source_names(model, family.model_type, tied=tied)
    tokenizer = gguf_tokenizer.read_tokenizer(model, family, template)
    ends = _end_ids(model, tokenizer)
    config |= {"dtype": precision, "eos_token_id": ends[0], "pad_token_id": tokenizer.pad_token_id}
    config |= {"bos_token_id": tokenizer.bos_token_id}

    folder.mkdir()
    with _writing(folder):
        tokenizer.save_pretrained(folder)
    _name_class(folder / "tokenizer_config.json")
    _write_json(folder / "config.json", config)
    generation = {"eos_token_id": ends, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.bos_token_id}
    _write_json(
        folder / "generation_config.json", {key: value for key, value in generation.items() if value is not None}
    )
    total, done = sum(tensor.n_bytes for tensor in tensors.values()), 0
    writer = _ShardWriter(folder)
    for name, weights, size in gguf_weights.convert_tensors(model, tensors, config, getattr(torch, precision)):
        writer.add(name, weights)
        done += size
        report(FetchProgress("convert", done, total))
    writer.close()
    return Conversion(
        family.model_type,
        model.quantisation,
        str(model.get("general.license", "")),
        str(model.get("general.license.link", "")),
        str(model.get("general.name", "")),
    )


def _end_ids(model: GgufModel, tokenizer: Any) -> list[int]:
    """Return the ids of all tokens that end a response, the tokenizer's own first."""
    named = [model.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom")]
    vocabulary = tokenizer.get_added_vocab()
    known = [vocabulary[token] for token in families.END_TOKENS if token in vocabulary]
    return list(dict.fromkeys(int(number) for number in [*named, *known] if number is not None))


def _name_class(path: Path) -> None:
    """Name the tokenizer's class as transformers 4 does, which vLLM and other readers may have; 5 accepts both."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content.pop("backend", None)
    _write_json(path, content | {"tokenizer_class": "PreTrainedTokenizerFast"})


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn errors of tokenizers and safetensors, which are no OSErrors on a full disk either, into one."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # tokenizers raises bare Exception
        raise OSError(f"{folder} cannot be written: {error}") from error


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


class _ShardWriter:
    """Writes safetensors files of at most _SHARD_BYTES, and their index if there are several."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: dict[str, torch.Tensor] = {}
        self._shards: list[list[str]] = []
        self._bytes = 0
        self._total = 0

    def add(self, name: str, weights: torch.Tensor) -> None:
        size = weights.numel() * weights.element_size()
        if self._pending and self._bytes + size > _SHARD_BYTES:
            self._flush()
        self._pending[name] = weights
        self._bytes += size
        self._total += size

    def close(self) -> None:
        self._flush()
        count = len(self._shards)
        if count == 1:
            self._path(1).rename(self._folder / "model.safetensors")
            return
        places: dict[str, str] = {}
        for number, names in enumerate(self._shards, 1):
            final = f"model-{number:05d}-of-{count:05d}.safetensors"
            self._path(number).rename(self._folder / final)
            places |= dict.fromkeys(names, final)
        _write_json(self._folder / INDEX_FILE, {"metadata": {"total_size": self._total}, "weight_map": places})

    def _flush(self) -> None:
        self._shards.append(list(self._pending))
        with _writing(self._folder):
            save_file(self._pending, self._path(len(self._shards)), metadata={"format": "pt"})
        self._pending, self._bytes = {}, 0

    def _path(self, number: int) -> Path:
        return self._folder / f"shard-{number}.safetensors"
