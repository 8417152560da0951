"""Changes of settings before an iteration: planned in the configuration, or requested while the run trains."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from trainer.config import changes, planned_rewinds
from trainer.config.run import RunConfig
from trainer.journal.change_requests import ChangeRequest, read_requests
from trainer.journal.events import SettingsChanged
from trainer.journal.protocol import CHANGES_FILE
from trainer.loops.session import RunSession


def are_due(session: RunSession) -> bool:
    """Answer new requests; return True if the next iteration has other settings than the current attempt.

    Each change that begins is written to the journal, and each refused one. The caller then saves a checkpoint and
    begins another attempt: every part of the trainer is built with the new settings, as after an interruption.
    """
    progress, journal = session.progress, session.journal
    iteration = progress.iteration + 1
    requested: set[str] = set()
    for request in new_requests(session):
        progress.answered_requests.append(request.request)
        event = SettingsChanged(
            iteration=iteration,
            changes=request.changes,
            request=request.request,
            by=request.by,
            why=request.why,
            rewinds=progress.rewinds,
        )
        added = {changes.key_of(name, iteration, progress.rewinds): text for name, text in request.changes.items()}
        try:
            _check(session, added)
        except ValueError as error:
            event.refused = str(error)[:1000]
            session.warn(f"The settings were not changed as requested: {error}.")
        else:
            progress.changes = progress.changes | added
            requested |= request.changes.keys()
        journal.write(event)
    if not session.has_changed(iteration):
        return False
    held = changes.held_at(session.requested.changes | progress.changes, iteration, progress.rewinds)
    planned = {
        name: text for name, (start, text) in held.items() if start.iteration == iteration and name not in requested
    }
    if planned:
        journal.write(SettingsChanged(iteration=iteration, changes=planned, rewinds=progress.rewinds))
    return True


def new_requests(session: RunSession) -> list[ChangeRequest]:
    """Return the requests that have not been answered, the oldest first."""
    try:
        requests = read_requests(session.folder)
    except (ValueError, OSError) as error:
        session.warn(f"Requested changes of settings cannot be read: {error}.", once=CHANGES_FILE)
        return []
    return [request for request in requests if request.request not in session.progress.answered_requests]


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a configuration."""
    return str(error.errors()[0]["msg"]).removeprefix("Value error, ")


def _check(session: RunSession, added: Mapping[str, str]) -> None:
    """Raise ValueError if the run cannot have these changes in addition to its others."""
    config, progress = session.requested, session.progress
    everything = config.changes | progress.changes | dict(added)
    try:
        changed = RunConfig.model_validate(config.model_dump() | {"changes": everything})
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    by_hand = planned_rewinds.numbers(progress.rewinds_by_hand)
    for start in changes.starts_of(added):
        changed.settings_at(start.iteration, start.rewinds, by_hand)
