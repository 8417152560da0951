"""Requests to download, cancel and delete models. Workers carry them out (webapp/worker/downloads)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet, Sum

from trainer.config.catalogue import CatalogueModel, catalogue
from webapp.core import formatting
from webapp.core.database import database_now
from webapp.core.quotas import QuotaExceeded, quota
from webapp.runs.actions import RequestRefused
from webapp.runs.models import Run, StoredModel, Worker
from webapp.runs.queue.dead_workers import live_workers
from webapp.teams.access import READ_ONLY, get_memberships
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Membership, User

GB = 1_000_000_000
SPARE_BYTES = 500_000_000
"""Disk space that a download leaves free: a full disk would stop runs and the database."""


class UnknownModel(LookupError):
    """There is no such model. The message is for users."""


def live_stores(now: datetime) -> dict[str, list[Worker]]:
    """Return the live workers by the identity of their models folder, by name. One query."""
    stores: dict[str, list[Worker]] = defaultdict(list)
    for worker in live_workers(now).filter(stopping=False).order_by("name"):
        if worker.model_store:
            stores[worker.model_store].append(worker)
    return dict(stores)


def may_download(user: User) -> bool:
    """Return True if the user may download models of the catalogue: staff, and all members of teams but viewers."""
    return user.is_staff or any(membership.role in Membership.WRITERS for membership in get_memberships(user))


def may_manage(user: User, stored: StoredModel) -> bool:
    """Return True if the user may cancel or delete: staff, and the member who requested the download."""
    return user.is_staff or (stored.requested_by_id == user.pk and may_download(user))


def needs_download(model: str) -> bool:
    """Return True if a `policy.model` is in the catalogue, but not installed on a live worker or being downloaded."""
    if model not in catalogue():
        return False
    stores = live_stores(database_now())
    there = (StoredModel.State.INSTALLED, *StoredModel.PENDING)
    return not StoredModel.objects.filter(name=model, store__in=stores, state__in=there).exists()


def do_request_download(user: User, name: str, worker: str = "") -> StoredModel:
    """Queue the download of a catalogue model, unless it is installed or under way; return its row.

    Args:
        worker: name of a live worker whose models folder is used; empty: the only folder, else the first worker's.
    Raises:
        UnknownModel: it is not in the catalogue.
        PermissionDenied: the user may not launch runs in any team.
        RequestRefused: no worker is running, the disk is too full, or the operator restricts the models.
        QuotaExceeded: the models folder has reached ECHOSCOPE_MAX_MODELS_GB.
    """
    model = catalogue().get(name)
    if model is None:
        raise UnknownModel(f"There is no model {name} in the catalogue; it has {', '.join(catalogue())}.")
    if not may_download(user):
        raise PermissionDenied(READ_ONLY)
    _require_listed(user, model)
    now = database_now()
    store, workers = _choose_store(live_stores(now), worker)
    with transaction.atomic():
        stored, _ = StoredModel.objects.select_for_update().get_or_create(
            store=store, name=name, defaults={"state": StoredModel.State.FAILED}
        )
        if stored.state == StoredModel.State.INSTALLED or stored.pending:
            return stored
        if stored.state == StoredModel.State.DELETING:
            raise RequestRefused(f"{model.label} is being deleted: try again in a few seconds.")
        _require_space(user, model, store, workers)
        stored.state, stored.requested_by, stored.requested_at = StoredModel.State.QUEUED, user, now
        stored.attempts, stored.error, stored.stage, stored.lease, stored.worker = 0, "", "", "", None
        stored.done_bytes, stored.total_bytes = 0, model.download_bytes
        stored.save()
        record(AuditAction.MODEL_CHANGED, f"download of {name}", user=user)
    return stored


@transaction.atomic
def do_cancel_download(user: User, name: str, store: str) -> None:
    """Cancel a download that is queued or under way, or forget a failed one.

    The worker deletes the part that it has.

    Raises:
        UnknownModel, PermissionDenied: as do_delete_model.
        RequestRefused: it is installed.
    """
    stored = _stored(name, store)
    _require_manager(user, stored)
    if not stored.pending and stored.state != StoredModel.State.FAILED:
        raise RequestRefused(f"{name} is not being downloaded: it is {stored.get_state_display().lower()}.")
    StoredModel.objects.filter(pk=stored.pk).update(state=StoredModel.State.DELETING, lease="", error="")
    record(AuditAction.MODEL_CHANGED, f"download of {name} cancelled", user=user)


@transaction.atomic
def do_delete_model(user: User, name: str, store: str) -> None:
    """Request that a worker deletes an installed model.

    Raises:
        UnknownModel: it is not in that store.
        PermissionDenied: the user is neither staff nor the member who downloaded it.
        RequestRefused: a queued or running run uses it, or it is not installed.
    """
    stored = _stored(name, store)
    _require_manager(user, stored)
    if stored.state != StoredModel.State.INSTALLED:
        raise RequestRefused(f"{name} is not installed there: it is {stored.get_state_display().lower()}.")
    if count := blocking_runs(name, store).count():
        raise RequestRefused(
            f"{formatting.plural(count, 'run')} that {'is' if count == 1 else 'are'} queued or running "
            f"{'uses' if count == 1 else 'use'} {name}: cancel or wait for {'it' if count == 1 else 'them'}, "
            "then delete the model."
        )
    StoredModel.objects.filter(pk=stored.pk).update(state=StoredModel.State.DELETING, error="")
    record(AuditAction.MODEL_CHANGED, f"{name} deleted", user=user)


def blocking_runs(name: str, store: str) -> QuerySet[Run]:
    """Return the queued runs that name the model, and those that train with it from this store."""
    held = Q(state__in=Run.HELD, worker__model_store=store)
    return Run.objects.filter(Q(state=Run.State.QUEUED) | held, config__policy__model=name)


def uses(names: Sequence[str]) -> Mapping[str, tuple[int, int]]:
    """Return (queued and running runs, paused and stopped runs) by model. One query."""
    counts = {name: [0, 0] for name in names}
    resting = (Run.State.PAUSED, Run.State.STOPPED)
    states = (Run.State.QUEUED, *Run.HELD, *resting)
    runs = Run.objects.filter(config__policy__model__in=list(names), state__in=states, imported=False)
    for name, state in runs.values_list("config__policy__model", "state"):
        counts[name][state in resting] += 1
    return {name: (active, paused) for name, (active, paused) in counts.items()}


def _stored(name: str, store: str) -> StoredModel:
    stored = StoredModel.objects.select_for_update().filter(name=name, store=store).first()
    if stored is None:
        raise UnknownModel(f"The model {name} is neither installed there nor being downloaded.")
    return stored


def _require_manager(user: User, stored: StoredModel) -> None:
    if not may_manage(user, stored):
        raise PermissionDenied(
            "Only the member who downloaded this model and staff of this site may cancel its download or delete it."
        )


def _require_listed(user: User, model: CatalogueModel) -> None:
    """Raise RequestRefused if the operator restricts models of the Hub and this one is not among them."""
    listed = settings.ECHOSCOPE_HUB_MODELS
    hub_id = model.hub_id or ""
    is_listed = any(hub_id == name or (name.endswith("/") and hub_id.startswith(name)) for name in listed)
    if listed and not is_listed and not user.is_staff:
        raise RequestRefused(
            f"{model.label} ({hub_id or model.name}) is not among the models that the operator of this site listed in "
            f"ECHOSCOPE_HUB_MODELS: {', '.join(listed)}. Staff of the site may download it."
        )


def _choose_store(stores: Mapping[str, list[Worker]], name: str) -> tuple[str, list[Worker]]:
    for store, workers in stores.items():
        if not name or any(worker.name == name for worker in workers):
            return store, workers
    if name:
        raise RequestRefused(f"There is no live worker {name} that can download models: choose another one.")
    raise RequestRefused("No worker is running, so nothing can be downloaded. Start one, then try again.")


def _require_space(user: User, model: CatalogueModel, store: str, workers: Sequence[Worker]) -> None:
    """Raise RequestRefused if the disk has too little space, QuotaExceeded beyond the operator's limit."""
    needed = model.folder_bytes + model.download_bytes
    free = min((worker.usage["disk_free"] for worker in workers if "disk_free" in worker.usage), default=None)
    if free is not None and free < needed + SPARE_BYTES:
        raise RequestRefused(
            f"The disk of {workers[0].name} has {free / GB:.1f} GB free, and {model.label} needs {needed / GB:.1f} GB "
            "during its installation. Delete models or runs that are not needed, then try again."
        )
    limit = quota("MODELS_GB")
    if not limit or user.is_staff:
        return
    rows = StoredModel.objects.filter(store=store)
    stored = rows.filter(state=StoredModel.State.INSTALLED).aggregate(sum=Sum("bytes"))["sum"] or 0
    pending = rows.filter(state__in=StoredModel.PENDING).values_list("name", flat=True)
    planned = sum(catalogue()[name].folder_bytes for name in pending if name in catalogue())
    if stored + planned + model.folder_bytes > limit * GB:
        raise QuotaExceeded(
            f"The models of {workers[0].name} use {(stored + planned) / GB:.1f} of {limit} GB, and {model.label} needs "
            f"{model.folder_bytes / GB:.1f} GB more. Ask staff of this site to delete a model, or to download this one."
        )
