"""The folder of installed models, shared by all runs of a machine. Imports no torch.

A model is an ordinary transformers folder, with a record of where it came from. It is written as NAME.partial and
renamed when complete. A lock file per model keeps two writers apart; a run that reads a model holds a shared lock
until its process ends, so that the model is not removed meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict, ValidationError

from trainer.config.catalogue import catalogue
from trainer.journal import disk_space
from trainer.paths import default_cache

RECORD_FILE = "RECORD.json"
FETCH = "python -m trainer models fetch"
DOWNLOAD, MODEL = "download", "model"
"""Within NAME.partial: what was downloaded so far, and the folder that will be the model's."""
_PARTIAL, _LOCKS = ".partial", ".locks"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESERVED = {"pocket"}


class ModelStoreError(ValueError):
    """A model that cannot be found, fetched, imported or removed. The message says what to do."""


class ModelRecord(BaseModel):
    """Origin of an installed model, kept in its folder.

    Attributes:
        source: text for people, as in "Qwen/Qwen3-0.6B on the Hugging Face Hub".
        hub_id: repository that the files are an exact copy of, at the commit `revision`; empty for converted weights.
        sha256: digests of the files that were downloaded or imported, by name.
        quantisation: format of the weights before they were expanded, as in "Q4_K, Q6_K"; empty if they never were
            quantised.
        architecture: `model_type` of transformers.
        added: time in UTC.
    """

    model_config = ConfigDict(extra="ignore")
    name: str
    source: str
    hub_id: str = ""
    revision: str = ""
    sha256: dict[str, str] = {}
    licence: str = ""
    licence_url: str = ""
    quantisation: str = ""
    architecture: str = ""
    dtype: str = ""
    added: datetime


@dataclass(frozen=True)
class InstalledModel:
    """A model in the store.

    Attributes:
        bytes: size of its folder.
        source, licence, added: as in the record; empty for a folder that was put there by hand.
    """

    name: str
    path: Path
    bytes: int
    source: str = ""
    licence: str = ""
    added: datetime | None = None
    record: ModelRecord | None = None


@dataclass(frozen=True)
class UnfinishedDownload:
    """What an interrupted download left, to be continued by the next one."""

    name: str
    bytes: int


def models_folder() -> Path:
    """Return the folder of installed models: ECHOSCOPE_MODELS, or `models` in the cache folder."""
    configured = os.environ.get("ECHOSCOPE_MODELS")
    return Path(configured).expanduser() if configured else default_cache() / "models"


def check_name(name: str) -> str:
    """Return the name of a model to install. Raises ModelStoreError if it is not a plain name."""
    if not _NAME.fullmatch(name) or name.endswith(_PARTIAL) or name in _RESERVED:
        raise ModelStoreError(
            f"{name[:200]!r} cannot be a model's name: use up to 100 letters, digits, dots, dashes and underscores, "
            "as in smollm2-135m"
        )
    return name


def store_name(model: str) -> str:
    """Return the name under which a catalogue name or hub id is installed.

    A hub id of the catalogue has the name of its entry; OWNER/MODEL of another one becomes OWNER--MODEL.
    """
    entry = next((entry.name for entry in catalogue().values() if entry.hub_id == model), None)
    return check_name(entry or model.replace("/", "--"))


def installed() -> list[InstalledModel]:
    """Return the installed models by name; folders without a config.json are no models."""
    try:
        folders = sorted(path for path in models_folder().iterdir() if _NAME.fullmatch(path.name))
    except FileNotFoundError:
        return []
    return [_describe(path) for path in folders if path.suffix != _PARTIAL and _is_model(path)]


def unfinished() -> list[UnfinishedDownload]:
    """Return the downloads that were interrupted and can be continued."""
    folders = sorted(models_folder().glob(f"*{_PARTIAL}"))
    return [UnfinishedDownload(path.name.removesuffix(_PARTIAL), folder_bytes(path)) for path in folders]


def find(name: str, revision: str = "") -> Path | None:
    """Return the folder of an installed model; None if it is not installed.

    Args:
        name: of a model in the store, or a hub id: a model that was copied from that repository.
        revision: of a hub id; only a copy of that commit or branch is returned. Empty: any.
    """
    if "/" in name:
        return next((model.path for model in installed() if _is_copy(model.record, name, revision)), None)
    path = models_folder() / name
    return path if _NAME.fullmatch(name) and path.suffix != _PARTIAL and _is_model(path) else None


def describe(name: str) -> InstalledModel:
    """Return an installed model. Raises ModelStoreError that says how to install it."""
    return _describe(find_or_explain(name))


def find_or_explain(name: str) -> Path:
    """Return the folder of an installed model. Raises ModelStoreError that says how to install it."""
    if path := find(name):
        return path
    if name in catalogue():
        raise ModelStoreError(f"the model {name} is not installed: {FETCH} {name}")
    raise ModelStoreError(f"no model {name!r} is installed: `python -m trainer models list` shows those that are")


def remove(name: str) -> int:
    """Remove an installed model and what an interrupted download left of it. Returns the bytes freed.

    Raises:
        ModelStoreError: it is not installed, or a process reads or writes it.
    """
    folder = models_folder()
    path, partial = folder / check_name(name), folder / f"{name}{_PARTIAL}"
    if find(name) is None and not partial.is_dir():
        find_or_explain(name)
    with _lock(name, exclusive=True):
        size = 0
        doomed = folder / f".removed-{name}"
        shutil.rmtree(doomed, ignore_errors=True)
        if path.is_dir():
            size += folder_bytes(path)
            path.rename(doomed)  # at once, so that no half of it is found
            shutil.rmtree(doomed)
        if partial.is_dir():
            size += folder_bytes(partial)
            shutil.rmtree(partial)
        return size


_held: dict[str, IO[str]] = {}


def hold(path: Path) -> None:
    """Keep an installed model from being removed until this process ends; other folders are ignored."""
    if path.parent != models_folder() or path.name in _held:
        return
    try:
        lock = _locks_folder() / path.name
        file = lock.open("r" if lock.exists() else "a+")  # a sandboxed trainer may read the store, not write
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return  # a read-only store, or a file system without locks: the model can be read all the same
    _held[path.name] = file


@contextmanager
def staging(name: str) -> Iterator[Path]:
    """Yield the folder NAME.partial; its subfolder MODEL becomes the installed model at the end of the block.

    After an error MODEL is deleted. The subfolder DOWNLOAD is kept after an interrupt or a ResumableError.

    Raises:
        ModelStoreError: the name is taken, or another process installs the same model.
    """
    folder = models_folder()
    path, partial = folder / check_name(name), folder / f"{name}{_PARTIAL}"
    with _lock(name, exclusive=True):
        if path.exists():
            raise ModelStoreError(
                f"{name} is already installed in {path}: choose another name, or remove it with "
                f"`python -m trainer models remove {name}`"
            )
        partial.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial / MODEL, ignore_errors=True)
        try:
            yield partial
        except BaseException as error:
            shutil.rmtree(partial / MODEL, ignore_errors=True)
            keep = isinstance(error, ResumableError | KeyboardInterrupt) and (partial / DOWNLOAD).is_dir()
            if not keep:
                shutil.rmtree(partial, ignore_errors=True)
            raise
        (partial / MODEL).rename(path)
        shutil.rmtree(partial, ignore_errors=True)


class ResumableError(ModelStoreError):
    """A download that can be continued by the same command."""


def error_text(error: Exception) -> str:
    """Return a failed installation's reason as a sentence, also where the operating system gave it."""
    if disk_space.is_full(error):
        return (
            f"the disk of {models_folder()} is full: nothing was installed, and no unfinished file is left. Free "
            "some space, or set ECHOSCOPE_MODELS to a folder on another disk"
        )
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def require_space(size: int) -> None:
    """Raise ModelStoreError if the store's disk has fewer free bytes than are about to be written."""
    free = disk_space.free_bytes(models_folder())
    if free < size:
        raise ModelStoreError(
            f"{size / 1e9:.2f} GB are needed in {models_folder()}, where {free / 1e9:.2f} GB are free: free some, or "
            "set ECHOSCOPE_MODELS to a folder on another disk"
        )


def write_record(folder: Path, record: ModelRecord) -> None:
    """Write the record into the folder of a model, and give the other files its permissions.

    safetensors creates files that only their owner can read. An operator's model would be useless to a worker's user.
    """
    path = folder / RECORD_FILE
    path.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    permissions = stat.S_IMODE(path.stat().st_mode)
    for file in folder.iterdir():
        if file.is_file():
            file.chmod(permissions)


def read_record(folder: Path) -> ModelRecord | None:
    """Return the record in the folder of a model; None if it has none or an unreadable one."""
    try:
        return ModelRecord.model_validate_json((folder / RECORD_FILE).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder; files that vanish meanwhile are not counted."""
    size = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            try:
                size += os.lstat(os.path.join(parent, file)).st_size
            except OSError:
                continue
    return size


def _is_model(path: Path) -> bool:
    return (path / "config.json").is_file()


def _is_copy(record: ModelRecord | None, hub_id: str, revision: str) -> bool:
    if record is None or record.hub_id != hub_id:
        return False
    return not revision or record.revision.startswith(revision)


def _describe(path: Path) -> InstalledModel:
    record = read_record(path)
    size = folder_bytes(path)
    if record is None:
        return InstalledModel(path.name, path, size)
    return InstalledModel(path.name, path, size, record.source, record.licence, record.added, record)


def as_json(model: InstalledModel) -> Mapping[str, object]:
    """Return an installed model for `--json`."""
    record = None if model.record is None else json.loads(model.record.model_dump_json())
    added = model.added.isoformat() if model.added else None
    return {
        "name": model.name,
        "path": str(model.path),
        "bytes": model.bytes,
        "source": model.source,
        "licence": model.licence,
        "added": added,
        "record": record,
    }


def _locks_folder() -> Path:
    folder = models_folder() / _LOCKS
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _lock(name: str, *, exclusive: bool) -> Iterator[None]:
    """Hold the lock of a model. Raises ModelStoreError if another process has it."""
    with (_locks_folder() / name).open("a+") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ModelStoreError(
                f"another process installs or uses {name}: wait until that download or run has ended"
            ) from None
        yield
