"""Rewinds by hand before an iteration: planned in the settings, or requested while the run trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from trainer.config import changes, planned_rewinds
from trainer.config.run import RunConfig
from trainer.journal.change_requests import ChangeRequest
from trainer.journal.events import SettingsChanged
from trainer.loops.session import RunSession
from trainer.loops.stages import checkpoints
from trainer.loops.stages.checkpoints import Progress
from trainer.loops.stages.setting_changes import first_problem, new_requests


@dataclass(frozen=True)
class ManualRewind:
    """A rewind to a kept checkpoint, and the new values of settings from there; without a request, as planned."""

    target: int
    values: Mapping[str, str]
    request: ChangeRequest | None = None

    def event(self, done: int, rewinds: int, refused: str = "") -> SettingsChanged:
        """Return the answer for the journal, after so many finished iterations, and rewinds including this one."""
        asked = self.request
        return SettingsChanged(
            iteration=self.target + 1,
            changes=dict(self.values),
            request=asked.request if asked else "",
            by=asked.by if asked else "",
            why=asked.why if asked else "",
            rewind_from=done,
            rewind_to=self.target,
            rewinds=rewinds,
            refused=refused[:1000],
        )


def find_due(session: RunSession) -> ManualRewind | None:
    """Return the rewind to make before the next iteration; refuse requests for impossible ones.

    Rewinds come before changes of settings: a change that waits with a rewind holds from the checkpoint on.
    """
    progress = session.progress
    target = planned_rewinds.target_at(session.requested.rewinds, progress.iteration, progress.rewinds)
    if target is not None:
        planned = ManualRewind(target, _planned_values(session.requested, target + 1, progress.rewinds + 1))
        if not (problem := _problem(session, planned)):
            return planned
        session.warn(f"The planned rewind to iteration {target} was not made: {problem}.", once=f"rewind to {target}")
    for request in new_requests(session):
        if request.rewind_to is None:
            continue
        asked = ManualRewind(request.rewind_to, request.changes, request)
        if not (problem := _problem(session, asked)):
            return asked
        progress.answered_requests.append(request.request)
        session.journal.write(asked.event(progress.iteration, progress.rewinds, problem))
        session.warn(f"The run was not rewound to iteration {asked.target} as requested: {problem}.")
    return None


def needed_checkpoints(session: RunSession) -> set[int]:
    """Return the checkpoints to which the run may rewind by plan or by a request that waits."""
    requested = {request.rewind_to for request in new_requests(session) if request.rewind_to is not None}
    return requested | planned_rewinds.targets(session.requested.rewinds, session.progress.rewinds)


def progress_after(session: RunSession, target: int, asked: ManualRewind | None = None) -> Progress:
    """Return the progress with which the run continues from a checkpoint, after a collapse or a rewind by hand."""
    now, progress = session.progress, checkpoints.load_progress(session.folder, target)
    progress.rewinds, progress.seconds = now.rewinds + 1, now.seconds
    progress.changes, progress.rewinds_by_hand = now.changes, now.rewinds_by_hand
    progress.answered_requests = now.answered_requests
    if asked is not None:
        key = planned_rewinds.key_of(now.iteration, now.rewinds)
        progress.rewinds_by_hand = now.rewinds_by_hand | {key: str(target)}
        progress.changes = now.changes | {
            changes.key_of(name, target + 1, progress.rewinds): text for name, text in asked.values.items()
        }
        if asked.request:
            progress.answered_requests = [*now.answered_requests, asked.request.request]
    return progress


def _planned_values(config: RunConfig, iteration: int, rewinds: int) -> dict[str, str]:
    """Return the new values with which a planned rewind continues."""
    start = changes.Start(rewinds, iteration)
    held = changes.held_at(config.changes, iteration, rewinds)
    return {name: value for name, (begun, value) in held.items() if begun == start}


def _problem(session: RunSession, asked: ManualRewind) -> str:
    """Return why the run cannot rewind like this; empty if it can."""
    config = session.requested
    kept = [at for at in checkpoints.checkpoint_iterations(session.folder) if 0 <= at <= session.progress.iteration]
    if asked.target not in kept:
        return f"no checkpoint of iteration {asked.target} is kept (kept: {', '.join(map(str, kept)) or 'none'})"
    if damage := checkpoints.damage(session.folder, asked.target):
        return damage
    progress = progress_after(session, asked.target, asked)
    plans = {"changes": config.changes | progress.changes, "rewinds": config.rewinds | progress.rewinds_by_hand}
    try:
        RunConfig.model_validate(config.model_dump() | plans)
        session.settings_at(asked.target + 1, progress)
    except ValidationError as error:
        return first_problem(error)
    except ValueError as error:
        return str(error)
    return ""
