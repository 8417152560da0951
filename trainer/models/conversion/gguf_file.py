"""Reading of GGUF files, one or the shards of one model, with errors for people.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; parsed by llama.cpp's own package `gguf`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gguf import GGUFReader
from gguf.constants import GGML_QUANT_SIZES
from gguf.gguf_reader import ReaderTensor

from trainer.models.store import ModelStoreError

_MAGIC = b"GGUF"
_UNREADABLE = (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, UnicodeDecodeError)


@dataclass(frozen=True)
class GgufModel:
    """A model in GGUF: the metadata of its first shard and the tensors of all."""

    readers: Sequence[GGUFReader]

    @property
    def architecture(self) -> str:
        """llama.cpp's name of the architecture, as in "llama"."""
        return str(self.get("general.architecture", ""))

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value of the metadata: text, number, or list."""
        field = self.readers[0].get_field(key)
        return default if field is None else field.contents()

    def setting(self, key: str, default: Any = None) -> Any:
        """Return a value of the architecture: `block_count` for `llama.block_count`."""
        return self.get(f"{self.architecture}.{key}", default)

    def required(self, key: str) -> Any:
        """Return a value of the architecture. Raises ModelStoreError if the file lacks it."""
        value = self.setting(key)
        if value is None:
            raise ModelStoreError(f"the GGUF file lacks {self.architecture}.{key}: it is not a complete language model")
        return value

    @cached_property
    def tensors(self) -> Mapping[str, ReaderTensor]:
        """All tensors by llama.cpp's names."""
        return {tensor.name: tensor for reader in self.readers for tensor in reader.tensors}

    @property
    def quantisation(self) -> str:
        """Formats of the quantised tensors, the most frequent first: "Q4_K, Q6_K"; empty if none is quantised."""
        counts: dict[str, int] = {}
        for tensor in self.tensors.values():
            kind = tensor.tensor_type
            if GGML_QUANT_SIZES[kind][0] > 1:
                counts[kind.name] = counts.get(kind.name, 0) + tensor.n_elements
        return ", ".join(sorted(counts, key=lambda name: -counts[name]))


def open_gguf(paths: Sequence[Path]) -> GgufModel:
    """Open a GGUF file, or all shards of one in any order.

    Raises:
        ModelStoreError: no GGUF, truncated, or a shard is missing or given twice.
    """
    readers = {path: _read(path) for path in paths}
    counts = {path: int(_scalar(reader, "split.count", 1)) for path, reader in readers.items()}
    if max(counts.values()) == 1 and len(paths) == 1:
        return GgufModel(list(readers.values()))
    if max(counts.values()) == 1:
        names = ", ".join(path.name for path in paths)
        raise ModelStoreError(f"{names} are separate models: import one at a time")
    expected = max(counts.values())
    shards: dict[int, Path] = {}
    for path, reader in readers.items():
        number = int(_scalar(reader, "split.no", 0))
        if counts[path] != expected or number in shards:
            other = shards.get(number, next(iter(readers)))
            raise ModelStoreError(f"{path.name} and {other.name} are not two different shards of one model: name one")
        shards[number] = path
    if absent := [str(number + 1) for number in range(expected) if number not in shards]:
        raise ModelStoreError(f"shard {', '.join(absent)} of {expected} is missing: name all {expected} files")
    model = GgufModel([readers[shards[number]] for number in range(expected)])
    total = _scalar(model.readers[0], "split.tensors.count", len(model.tensors))
    if total != len(model.tensors):
        raise ModelStoreError(f"the shards contain {len(model.tensors)} of {total} tensors: download them again")
    return model


def is_gguf(path: Path) -> bool:
    """Return whether a file begins as GGUF does."""
    with path.open("rb") as file:
        return file.read(4) == _MAGIC


def _scalar(reader: GGUFReader, key: str, default: int) -> int:
    field = reader.get_field(key)
    return default if field is None else int(field.contents())


def _read(path: Path) -> GGUFReader:
    size = path.stat().st_size
    if not is_gguf(path):
        raise ModelStoreError(f"{path.name} is not a GGUF file: it does not begin with the letters GGUF")
    try:
        reader = GGUFReader(path)
        end = max((tensor.data_offset + tensor.n_bytes for tensor in reader.tensors), default=0)
    except _UNREADABLE as error:
        raise ModelStoreError(
            f"{path.name} cannot be read as GGUF ({error}): it is damaged or cut off at {size:,} bytes; download it "
            "again, and name all parts if it is split"
        ) from error
    if end > size:
        raise ModelStoreError(f"{path.name} is cut off: {size:,} of {end:,} bytes; is a last part missing?")
    return reader
