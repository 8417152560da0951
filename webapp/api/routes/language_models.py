"""Endpoints of models: list, download, delete."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from trainer.config.catalogue import catalogue
from trainer.config.files import find_preset, load_preset, preset_names
from trainer.config.run import RunConfig
from webapp.api.auth import Caller, caller
from webapp.api.errors import Problem, refused
from webapp.api.schemas.model_schemas import (
    EstimatedPreset,
    ModelFitOut,
    ModelName,
    ModelOut,
    ModelStoreOut,
    StoreWorker,
)
from webapp.runs.model_cards import cards
from webapp.runs.model_cards.cards import ModelCard, StoreStatus
from webapp.runs.stored_models import model_requests
from webapp.runs.stored_models.model_requests import UnknownModel
from webapp.teams.access import require_writer

router = Router(tags=["catalogue"])


@router.get(
    "/models",
    response={200: list[ModelOut]} | refused(),
    operation_id="list_models",
    summary="List models",
)
def list_models(request: HttpRequest, preset: EstimatedPreset = "") -> list[ModelOut]:
    """The pocket policy, the catalogue, and other models that are installed on live workers."""
    preset_name = find_preset(preset) if preset else ""
    if preset_name is None:
        raise Problem(404, f"There is no preset {preset}; there are {', '.join(preset_names())}.")
    config = load_preset(preset_name) if preset_name else RunConfig()
    return [_model(card) for card in cards.cards(caller(request).user, config, preset_name, estimate=bool(preset_name))]


@router.post(
    "/models/{name}/download",
    response={200: ModelOut} | refused(409),
    operation_id="install_model",
    summary="Download a model to a worker",
)
def install_model(request: HttpRequest, name: ModelName, worker: StoreWorker = "") -> ModelOut:
    """Queue the download of a model of the catalogue; a worker carries it out. Poll the list for its progress.

    Repeating the call changes nothing while the model is installed or being downloaded; after a failure it continues.
    """
    requester = caller(request)
    _require_writing_token(requester)
    try:
        model_requests.do_request_download(requester.user, name, worker)
    except UnknownModel as error:
        raise Problem(404, str(error)) from None
    return _one(requester, name)


@router.delete(
    "/models/{name}",
    response={204: None} | refused(409),
    operation_id="remove_model",
    summary="Delete a model from a worker",
)
def remove_model(request: HttpRequest, name: ModelName, worker: StoreWorker = "") -> tuple[int, None]:
    """Delete an installed model from a worker's folder, or cancel its download.

    For staff of the site and for the member who downloaded it; not while queued or running runs use it.
    """
    requester = caller(request)
    _require_writing_token(requester)
    stores = next((card.stores for card in cards.status_cards(requester.user) if card.name == name), ())
    present = [store for store in stores if store.stored and (not worker or worker in store.workers)]
    if not present:
        raise Problem(404, f"The model {name} is neither installed on a live worker nor being downloaded.")
    store = present[0]
    if store.pending or store.state == "failed":
        model_requests.do_cancel_download(requester.user, name, store.store)
    else:
        model_requests.do_delete_model(requester.user, name, store.store)
    return 204, None


def _require_writing_token(requester: Caller) -> None:
    """Raise PermissionDenied for a token of a team in which its owner may only read."""
    if requester.team is not None:
        require_writer(requester.user, requester.team.pk)


def _one(requester: Caller, name: str) -> ModelOut:
    return next(_model(card) for card in cards.status_cards(requester.user) if card.name == name)


def _model(card: ModelCard) -> ModelOut:
    return ModelOut(
        name=card.name,
        label=card.label,
        parameters=card.parameters,
        licence=card.licence,
        licence_url=card.licence_url,
        gated=card.gated,
        thinking=card.thinking,
        learns=card.learns,
        download_bytes=list(card.downloads),
        catalogue=card.name in catalogue(),
        installed=card.installed,
        stores=[_store(store) for store in card.stores],
        fits=[
            ModelFitOut(worker=fit.worker, verdict=fit.verdict, needed=fit.needed, available=fit.available)
            for fit in card.fits
        ],
    )


def _store(status: StoreStatus) -> ModelStoreOut:
    row = status.stored
    if row is None:
        return ModelStoreOut(workers=list(status.workers), state=status.state)
    return ModelStoreOut(
        workers=list(status.workers),
        state=status.state,
        stage=row.stage,
        done_bytes=row.done_bytes,
        total_bytes=row.total_bytes,
        bytes=row.bytes,
        error=row.error,
    )
