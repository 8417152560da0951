"""Endpoints of changes of settings while a run trains, and of rewinds by hand."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router, Status

from webapp.api.auth import caller
from webapp.api.errors import invalid, refused
from webapp.api.schemas.run_schemas import SettingsChangeList, SettingsChangeOut, SettingsRequest
from webapp.api.schemas.shared_schemas import RunSlug
from webapp.runs.setting_changes import InvalidChange, do_request_changes

router = Router(tags=["runs"])


@router.get(
    "/runs/{slug}/changes",
    response={200: SettingsChangeList} | refused(),
    operation_id="list_settings_changes",
    summary="List changes of settings during training",
)
def list_settings_changes(request: HttpRequest, slug: RunSlug) -> SettingsChangeList:
    """Requested and planned changes of settings while the run trains, with the trainer's answers."""
    run = caller(request).run(slug)
    return SettingsChangeList(items=[SettingsChangeOut.from_orm(change) for change in run.setting_changes.all()])


@router.post(
    "/runs/{slug}/changes",
    response={202: SettingsChangeOut} | refused(409),
    operation_id="change_settings",
    summary="Change settings while a run trains, or rewind it",
)
def change_settings(request: HttpRequest, slug: RunSlug, payload: SettingsRequest) -> Status[SettingsChangeOut]:
    """The new values hold from the run's next iteration on: the trainer answers with that iteration, or a refusal.

    With `rewind_to` the run goes back to that kept checkpoint, and the new values hold from there; what it played after
    the checkpoint is superseded. 409 if the run cannot change its settings or rewind, 422 for an impossible value or
    checkpoint.
    """
    requester = caller(request)
    run = requester.run_to_change(slug)
    values = {name: f"{value:.12g}" for name, value in payload.changes.items()}
    if not values and payload.rewind_to is None:
        raise invalid({"changes": "name a setting and its new value, or a checkpoint in rewind_to"})
    try:
        change = do_request_changes(run, requester.user, values, payload.why, payload.rewind_to)
    except InvalidChange as error:
        raise invalid({error.setting or "changes": str(error)}) from None
    return Status(202, SettingsChangeOut.from_orm(change))
