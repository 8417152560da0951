"""Availability of a queued run's model on workers, and the reason why the run waits if none has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainer.config.catalogue import catalogue
from webapp.core.database import database_now
from webapp.runs.inputs.stored_models import stored_name
from webapp.runs.models import Run, StoredModel, Worker


def required_model(run: Run) -> str:
    """Return the model of a store that the run needs to start; empty if it needs none."""
    return (
        ""
        if run.config.get("hosted", {}).get("url")
        else stored_name(str((run.config.get("policy") or {}).get("model", "")))
    )


def missing_model(run: Run, workers: Sequence[Worker]) -> str:
    """Return the reason why none of these workers has the run's model; empty if one has it or the run needs none.

    One query for a run that needs a model of a store.
    """
    name = required_model(run)
    if not name or not workers:
        return ""
    of_store = {worker.model_store: worker.name for worker in workers if worker.model_store}
    rows = list(StoredModel.objects.filter(name=name, store__in=of_store).select_related("worker"))
    if any(stored.state == StoredModel.State.INSTALLED for stored in rows):
        return ""
    best = min(rows, key=lambda stored: _ORDER.index(StoredModel.State(stored.state)), default=None)
    label = catalogue()[name].label if name in catalogue() else name
    if best is None or best.state == StoredModel.State.DELETING:
        where = "on the launch form or the page of workers" if name in catalogue() else "on the worker's command line"
        return f"its model {label}, which is not installed on {_any_name(of_store.values())}: download it {where}"
    if best.state == StoredModel.State.FAILED:
        return f"its model {label}, whose download failed: {best.error} Start the download again"
    return f"its model {label}: {progress_text(best)}"


_ORDER = [
    StoredModel.State.INSTALLED,
    StoredModel.State.DOWNLOADING,
    StoredModel.State.QUEUED,
    StoredModel.State.FAILED,
    StoredModel.State.DELETING,
]


def progress_text(stored: StoredModel) -> str:
    """Return the progress of a download, e.g. “downloading on worker@a (41%)”."""
    if stored.state == StoredModel.State.QUEUED:
        return "its download waits for the worker"
    worker = stored.worker.name if stored.worker else "a worker"
    if stored.is_silent(database_now()):
        return f"{worker} stopped during the download; it continues when a worker of that folder runs"
    if stored.stage in ("convert", "check"):
        verb = "being converted" if stored.stage == "convert" else "being checked"
        return f"downloaded, now {verb} on {worker}{_percent(stored)}"
    return f"downloading on {worker}{_percent(stored)}"


def _percent(stored: StoredModel) -> str:
    return "" if stored.share is None else f" ({stored.share:.0%})"


def _any_name(names: Iterable[str]) -> str:
    listed = sorted(set(names))
    if not listed:
        return "any worker"
    return listed[0] if len(listed) == 1 else f"any of {', '.join(listed)}"
