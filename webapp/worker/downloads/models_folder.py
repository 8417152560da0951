"""The models folder of this worker, and its rows in the database."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from trainer.models import store
from webapp.runs.actions import wake_next_on_commit
from webapp.runs.models import StoredModel
from webapp.worker.files import data_folder

VARIABLE = "ECHOSCOPE_MODELS"
FOLDER = "model-store"
MAX_SHAPE_BYTES = 100_000


def set_models_folder() -> None:
    """Choose the folder for this process and its children: the operator's folder, or one in the site's data folder.

    The command line's cache folder is writable for runs; this folder is not.
    """
    if not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = str(Path(settings.ECHOSCOPE_DATA_DIR) / FOLDER)


def store_identity() -> str:
    """Return the identity of the folder, which is created at the first call; empty if it is not writable."""
    folder = store.models_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return data_folder.identify(folder)


@transaction.atomic
def do_sync(identity: str) -> None:
    """Make the rows of installed models equal to the folder. Runs that wait for a new model are woken."""
    rows = {row.name: row for row in StoredModel.objects.filter(store=identity)}  # before the folder is read
    installed = {model.name: model for model in store.installed()}
    state = StoredModel.State
    added = False
    for name, model in installed.items():
        row = rows.pop(name, None)
        if row is not None and row.state in (state.INSTALLED, state.DOWNLOADING, state.DELETING):
            continue
        values = {"state": state.INSTALLED, "error": "", "lease": "", "worker": None, **_facts(model)}
        StoredModel.objects.update_or_create(store=identity, name=name, defaults=values)
        added = True
    gone = [row.pk for row in rows.values() if row.state == state.INSTALLED]
    if gone:
        StoredModel.objects.filter(pk__in=gone, state=state.INSTALLED).delete()
    if added:
        wake_next_on_commit()


@transaction.atomic
def do_finish_download(row: StoredModel) -> None:
    """Mark a download as installed and wake runs that wait for it, or as failed if the folder lacks the model."""
    model = next((model for model in store.installed() if model.name == row.name), None)
    mine = StoredModel.objects.filter(pk=row.pk, lease=row.lease)
    if model is None:
        mine.update(state=StoredModel.State.FAILED, lease="", error="The download ended without the model's folder.")
        return
    if mine.update(state=StoredModel.State.INSTALLED, lease="", worker=None, error="", **_facts(model)):
        wake_next_on_commit()


def do_delete_requested(identity: str) -> None:
    """Delete models, and remains of cancelled downloads, whose deletion was requested."""
    for row in StoredModel.objects.filter(store=identity, state=StoredModel.State.DELETING):
        rows = StoredModel.objects.filter(pk=row.pk, state=StoredModel.State.DELETING)
        try:
            store.remove(row.name)
        except (store.ModelStoreError, OSError) as error:
            if store.find(row.name) is not None:
                rows.update(state=StoredModel.State.INSTALLED, error=f"It could not be deleted: {error}.")
                continue
            if (store.models_folder() / f"{row.name}.partial").exists():
                continue  # its download is just ending
        rows.delete()


def _facts(model: store.InstalledModel) -> dict[str, Any]:
    return {
        "bytes": model.bytes,
        "source": model.source[:300],
        "licence": model.licence[:100],
        "shape": _shape(model.path),
    }


def _shape(folder: Path) -> dict[str, Any]:
    """Return the model's config.json, for memory estimates; empty if it is unreadable or oversized."""
    try:
        text = (folder / "config.json").read_text(encoding="utf-8")
        config = json.loads(text) if len(text) <= MAX_SHAPE_BYTES else {}
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
