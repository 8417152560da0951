"""Import of models from files: GGUF in all its packagings, and folders of safetensors."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from trainer.models import check, store
from trainer.models.progress import Report, ignore
from trainer.models.source_files import SourceFile, collect
from trainer.models.store import InstalledModel, ModelRecord, ModelStoreError

_GGUF = b"GGUF"
_QUANTISATION = re.compile(r"[-._](?:I?Q\d\w*|F16|F32|BF16|GGUF)(?=$|[-._])", re.IGNORECASE)
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
Precision = Literal["bfloat16", "float32"]


@dataclass(frozen=True)
class ImportOptions:
    """Choices of an import.

    Attributes:
        precision: of the weights that are written; safetensors keep theirs.
        template: chat template for a model without one: chatml, gemma or llama3.
    """

    precision: Precision = "bfloat16"
    template: str = ""


def import_model(
    paths: Sequence[Path], name: str = "", options: ImportOptions | None = None, report: Report = ignore
) -> InstalledModel:
    """Install a model from files.

    Args:
        paths: GGUF files, shards or byte parts of one, wheels with either, or folders with these or with a
            transformers checkpoint; in any order.
        name: under which it is installed; "" derives one from the files.
    Raises:
        ModelStoreError: nothing was installed; the message says what to do.
    """
    files = collect(paths)
    chosen = store.check_name(name or _name_from(files))
    with store.staging(chosen) as work:
        record = write_model(files, work, options or ImportOptions(), report)
        sources = {path.name: path for path in paths if path.is_file()}
        sha256 = check.digests(sources or {file.name: file.plain for file in files if file.plain}, report)
        names = ", ".join(sorted(path.name for path in paths))
        store.write_record(
            work / store.MODEL, record.model_copy(update={"name": chosen, "source": names, "sha256": sha256})
        )
    return store.describe(chosen)


def write_model(files: Sequence[SourceFile], work: Path, options: ImportOptions, report: Report) -> ModelRecord:
    """Write a model from its files to the subfolder MODEL of a staging folder, and check it.

    Returns:
        A record without name, source and digests.
    Raises:
        ModelStoreError: the files are no model, or an incomplete one.
    """
    ggufs = [file for file in files if file.name.endswith(".gguf") or file.starts_with(_GGUF)]
    added = datetime.now(UTC)
    if not ggufs:
        _copy_checkpoint(files, work / store.MODEL)
        add_template(work / store.MODEL, options.template)
        kind = check.check_folder(work / store.MODEL)
        return ModelRecord(name="", source="", architecture=kind, added=added)
    from trainer.models.conversion.gguf_conversion import convert

    store.require_space(sum(file.size for file in ggufs if file.plain is None))
    paths = [file.plain or _joined(file, work / "joined") for file in ggufs]
    found = convert(paths, work / store.MODEL, report, options.precision, options.template)
    shutil.rmtree(work / "joined", ignore_errors=True)
    check.check_folder(work / store.MODEL)
    return ModelRecord(
        name="",
        source="",
        licence=found.licence,
        licence_url=found.licence_url,
        quantisation=found.quantisation,
        architecture=found.architecture,
        dtype=options.precision,
        added=added,
    )


def add_template(folder: Path, template: str) -> None:
    """Write a chat template of a family into a transformers folder; "" leaves the folder as it is."""
    if template:
        from trainer.models.conversion.families import template_text

        (folder / "chat_template.jinja").write_text(template_text(template), encoding="utf-8")


def _joined(file: SourceFile, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    target = folder / (file.name or "model.gguf")
    file.write(target)
    return target


def _copy_checkpoint(files: Sequence[SourceFile], folder: Path) -> None:
    """Copy the files of a transformers folder, with parts joined."""
    names = {file.name for file in files}
    if not any(name.endswith(".safetensors") for name in names):
        shown = ", ".join(sorted(names)[:3]) or "no file"
        raise ModelStoreError(
            f"there is no GGUF or safetensors file among what was given ({shown}): name a GGUF file, or a folder with "
            "a transformers checkpoint"
        )
    for needed in ("config.json", "tokenizer_config.json"):
        if needed not in names:
            raise ModelStoreError(f"{needed} is missing: name the folder with all files of the model")
    folder.mkdir()
    store.require_space(sum(file.size for file in files))
    for file in files:
        if file.name != store.RECORD_FILE:
            file.write(folder / file.name)


def _name_from(files: Sequence[SourceFile]) -> str:
    """Return a name for the store from the names of weights or their folder. Raises ModelStoreError without one."""
    for file in files:
        stem = file.name.removesuffix(".gguf") if file.name.endswith(".gguf") else ""
        if not stem and file.name.endswith(".safetensors"):
            first = file.pieces[0].path
            stem = first.parent.name if not file.pieces[0].member else first.name.split("-")[0]
        if stem:
            stem = _QUANTISATION.sub("", _SHARD.sub("", stem))
            return re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._") or _needs_name()
    return _needs_name()


def _needs_name() -> str:
    raise ModelStoreError("the files do not tell a name for the model: add --name NAME")
