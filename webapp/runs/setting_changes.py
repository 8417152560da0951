"""Changes of settings while a run trains, and rewinds by hand: requests, their delivery to the trainer, its answers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from pydantic import ValidationError

from trainer.config import changes, planned_rewinds
from trainer.config.dotted import value_at
from trainer.config.files import as_messages
from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from trainer.journal.events import SettingsChanged
from trainer.journal.protocol import CHANGES_FILE
from webapp.runs.actions import RequestRefused, notify_on_commit, record_run
from webapp.runs.launch.fields import full_labels
from webapp.runs.models import Run, SettingsChange
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.teams.models import AuditAction, User

MAX_CHANGES = 200
"""Requests of one run."""
REWIND_TO = "rewind_to"
OPEN_STATES = (Run.State.QUEUED, *Run.HELD, *Run.RESUMABLE)


class InvalidChange(ValueError):
    """A requested value is impossible. The message is for users; `setting` is the dotted name, or empty."""

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


@dataclass(frozen=True)
class ChangeableSetting:
    """A setting that can change while a run trains: present value, value of a waiting request, and what was entered."""

    name: str
    label: str
    value: str
    waiting: str = ""
    entered: str = ""
    problem: str = ""


def refusal(run: Run, *, rewinds: bool = False) -> str:
    """Return why the settings of a run cannot be changed now, or why it cannot be rewound; empty if it can."""
    if run.imported or run.recorded is not None:
        what = "rewind it" if rewinds else "change its settings"
        return f"This run was trained elsewhere: {what} where it is trained."
    if run.state not in OPEN_STATES:
        instead = "clone it to train with other settings."
        if rewinds:
            instead = (
                f"clone it instead, with policy.model run:{run.slug}@ITERATION, to train on from a kept checkpoint."
            )
        return f"This run is {run.get_state_display().lower()}: {instead}"
    plan = (
        {"rewinds": {planned_rewinds.key_of(run.iteration): "0"}} if rewinds else {"changes": {"evaluation.every@1": 1}}
    )
    try:
        stored_config(dict(run.config) | plan)
    except ValidationError as error:
        what = "This run cannot be rewound" if rewinds else "The settings of this run cannot be changed"
        return f"{what}: {_first(error)}."
    return ""


def checkpoint_refusal(run: Run, target: int) -> str:
    """Return why a run that can be rewound cannot go back to that checkpoint; empty if it can."""
    kept = sorted(run.checkpoints.filter(iteration__gte=0).values_list("iteration", flat=True))
    if target not in kept:
        listed = ", ".join(map(str, kept)) or "none"
        return f"No checkpoint of iteration {target} is kept (kept: {listed})."
    if target >= run.iteration:
        return f"Nothing was trained after iteration {target}: change settings instead."
    if waiting := waiting_rewind(run):
        return f"A rewind to iteration {waiting.rewind_to} waits for the trainer already."
    return ""


def waiting_rewind(run: Run) -> SettingsChange | None:
    """Return the rewind that the trainer has been asked for and has not answered; None without one. One query."""
    if run.state not in OPEN_STATES:
        return None
    return run.setting_changes.filter(iteration=None, rewind_to__isnull=False).first()


def changeable_settings(
    run: Run, entered: Mapping[str, str], rewind_to: int | None = None, invalid: InvalidChange | None = None
) -> list[ChangeableSetting]:
    """Return the settings that can be changed, with the values of the next iteration. Two queries.

    Args:
        rewind_to: iteration of the checkpoint after which they would change, instead of the newest iteration.
        invalid: what is wrong with the entered values.
    """
    config = stored_config(run.config)
    begin = _next(run, rewind_to)
    now = config.at_iteration(begin.iteration, begin.rewinds).model_dump(mode="json")
    waiting: dict[str, str] = {}
    for change in run.setting_changes.filter(iteration=None):
        waiting |= change.changes
    unused = config.without_effect(config.model_dump())
    labels = full_labels()
    return [
        ChangeableSetting(
            name,
            labels.get(name, name),
            json.dumps(value_at(now, name)),
            waiting.get(name, ""),
            entered.get(name, ""),
            str(invalid) if invalid is not None and invalid.setting == name else "",
        )
        for name in changes.CHANGEABLE
        if name not in unused
    ]


def repeated_changes(run: Run, rewind_to: int) -> list[tuple[int, str, str]]:
    """Return the earlier changes that a run makes once more after a rewind: iteration, setting, value."""
    stored = stored_config(run.config).changes
    parsed = sorted(
        (start.iteration, name, text) for key, text in stored.items() for name, start in [changes.parse_key(key)]
    )
    return [change for change in parsed if rewind_to < change[0] <= run.iteration + 1]


def _next(run: Run, rewind_to: int | None) -> changes.Start:
    """Return when new values would begin: at the next iteration, or after a rewind."""
    made = run.rewinds.count()
    if rewind_to is None:
        return changes.Start(made, max(1, run.iteration + 1))
    return changes.Start(made + 1, rewind_to + 1)


@transaction.atomic
def do_request_changes(
    run: Run, user: User, values: Mapping[str, str], why: str, rewind_to: int | None = None
) -> SettingsChange:
    """Request other values of settings from the next iteration on. The trainer answers in the journal.

    Args:
        rewind_to: iteration of a kept checkpoint to which the run goes back first.

    Raises:
        RequestRefused: the run's state does not permit it.
        InvalidChange: a value or the checkpoint is impossible, or nothing changes.
    """
    locked = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
    if reason := refusal(locked, rewinds=rewind_to is not None):
        raise RequestRefused(reason)
    if locked.setting_changes.count() >= MAX_CHANGES:
        raise RequestRefused(f"The settings of a run can be changed {MAX_CHANGES} times: clone it to change more.")
    if rewind_to is not None and (reason := checkpoint_refusal(locked, rewind_to)):
        raise InvalidChange(reason, REWIND_TO)
    wanted = {name: " ".join(text.split()) for name, text in values.items()}
    if _changes_nothing(locked, wanted, _next(locked, rewind_to)) and rewind_to is None:
        raise InvalidChange("These are the present values: nothing would change.")
    change = SettingsChange.objects.create(
        run=locked,
        request=secrets.token_hex(8),
        author=user,
        by=user.username,
        why=why.strip()[:1000],
        changes=wanted,
        rewind_to=rewind_to,
    )
    details: dict[str, Any] = {"request": "change settings"}
    if rewind_to is not None:
        details = {"request": "rewind", REWIND_TO: rewind_to}
    record_run(AuditAction.CONTROLLED, locked, **details, **({"changes": wanted} if wanted else {}))
    notify_on_commit(locked.pk)
    return change


def _changes_nothing(run: Run, wanted: Mapping[str, str], begin: changes.Start) -> bool:
    """Return True if the run has these values already, and no request waits. Raises InvalidChange."""
    for name in wanted:
        try:
            changes.parse_key(changes.key_of(name, begin.iteration))
        except ValueError as error:
            raise InvalidChange(str(error), name) from None
    config = stored_config(run.config)
    added = {changes.key_of(name, begin.iteration, begin.rewinds): text for name, text in wanted.items()}
    try:
        changed = RunConfig.model_validate(config.model_dump() | {"changes": config.changes | added})
    except ValidationError as error:
        message = _first(error)
        named = next((name for name in wanted if f" {name}: " in message), "")
        raise InvalidChange(message.split(f" {named}: ")[-1] if named else message, named) from None
    before, after = (one.at_iteration(begin.iteration, begin.rewinds) for one in (config, changed))
    same = after == before.model_copy(update={"changes": changed.changes})
    return same and not run.setting_changes.filter(iteration=None).exists()


def _first(error: ValidationError) -> str:
    """Return the first problem in a sentence without a full stop."""
    name, message = next(iter(as_messages(error.errors())))
    return f"{name}: {message}" if name else message


# -- for the supervisor ------------------------------------------------------------------------------------------------


def pending_requests(run: Run) -> list[dict[str, Any]]:
    """Return the requests that the trainer has not answered, the oldest first, as in the trainer's file. One query."""
    pending = run.setting_changes.filter(iteration=None)
    return [dict(row) for row in pending.values("request", "changes", "rewind_to", "by", "why")]


def deliver(inside: UntrustedFolder, requests: Sequence[Mapping[str, Any]]) -> None:
    """Write the trainer's file of requests atomically."""
    inside.replace(CHANGES_FILE, json.dumps({"requests": list(requests)}).encode())


# -- writing, inside the ingest's transaction --------------------------------------------------------------------------


def record_change(run: Run, event: SettingsChanged) -> None:
    """Record the trainer's answer, and add granted requests to the run's settings, so that a clone repeats them."""
    request = event.request or changes.key_of("planned", event.iteration, event.rewinds)
    answer = event.model_dump(include={"iteration", "changes", "refused", "rewind_from", "rewind_to"})
    answer["time"] = datetime.fromtimestamp(event.time, tz=UTC)
    SettingsChange.objects.update_or_create(
        run=run, request=request, defaults=answer, create_defaults=answer | {"by": event.by, "why": event.why}
    )
    if event.refused or not event.request or run.recorded is not None:
        return
    added = {changes.key_of(name, event.iteration, event.rewinds): value for name, value in event.changes.items()}
    plans = {"changes": (run.config.get("changes") or {}) | added}
    if event.rewind_from is not None:
        made = {planned_rewinds.key_of(event.rewind_from, event.rewinds - 1): str(event.rewind_to)}
        plans["rewinds"] = (run.config.get("rewinds") or {}) | made
    if any(plan != run.config.get(name, {}) for name, plan in plans.items()):
        run.config |= plans
        Run.objects.filter(pk=run.pk).update(config=run.config)


def forget_answers(run: Run) -> None:
    """Forget what the journal says about changes, before it is read again; requests of the site's people remain."""
    run.setting_changes.filter(author=None).delete()
    run.setting_changes.update(iteration=None, rewind_from=None, refused="")


# -- for pages ---------------------------------------------------------------------------------------------------------


def marks(run: Run) -> list[dict[str, Any]]:
    """Return the changes and rewinds that took effect by iteration, for charts and the snapshot. One query."""
    effective = run.setting_changes.filter(iteration__isnull=False, refused="").order_by("iteration", "pk")
    return [dict(row) for row in effective.values("request", "iteration", "changes", "rewind_from")]
