"""Imported runs, created from the first event of a journal and left in the state of its last event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from pydantic import ValidationError

from trainer.config.files import as_messages
from trainer.config.run import RunConfig
from trainer.journal.events import RunStarted
from webapp.core.quotas import is_reached, quota
from webapp.runs.actions import notify_on_commit, run_ended
from webapp.runs.models import Run
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Team, User

ENDS = {
    "completed": Run.State.FINISHED,
    "echo_trap": Run.State.FINISHED,
    "no_signal": Run.State.FINISHED,
    "budget": Run.State.FINISHED,
    "error": Run.State.FAILED,
}
TOLERATED = ("extra_forbidden", "value_error")
"""Unknown settings and environments that are not installed here do not prevent an import."""
MAX_CONFIG_BYTES = 128 * 1024
MAX_ITERATIONS = 2**31 - 1


class NotImportable(ValueError):
    """The journal cannot be imported as a run. The message gives the reason."""


@transaction.atomic
def do_create_imported_run(
    team: Team,
    author: User | None,
    started: RunStarted,
    *,
    title: str = "",
    growing: bool = False,
    visibility: Run.Visibility = Run.Visibility.TEAM,
    launch_key: str = "",
) -> Run:
    """Create a run without a process or events. Raises NotImportable; IntegrityError for a known `launch_key`."""
    config = _stored(started.config)
    if not 0 <= started.iterations <= MAX_ITERATIONS:
        raise NotImportable(f"its run_started event plans {started.iterations} iterations")
    if is_reached("TAGS_PER_RUN", len(config["tags"]) - 1):
        raise NotImportable(f"its run has {len(config['tags']):,} tags, and {quota('TAGS_PER_RUN')} are allowed")
    title = (title.strip() or started.title.strip() or "Imported run")[:200]
    if "\0" in title or "\\u0000" in json.dumps(config):
        raise NotImportable("its run_started event holds a NUL character")
    run = Run.objects.create(
        team=team,
        author=author,
        title=title,
        config=config,
        environment=config.get("environment", {}).get("name", "")[:100],
        tags=config["tags"],
        iterations=started.iterations,
        state=Run.State.RUNNING if growing else Run.State.STOPPED,
        imported=True,
        visibility=visibility,
        launch_key=launch_key,
    )
    record(AuditAction.IMPORTED, f"run “{title}”", team=team, path=reverse("run", args=[run.slug]))
    return run


def _stored(sent: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration to store: completed if it is our own trainer's, else unchanged. Raises NotImportable."""
    if not _is_foreign(sent):
        return _complete(sent)
    _check_size(sent)
    recorded = sent.get("recorded", sent)
    environment, tags = sent.get("environment"), sent.get("tags")
    name = environment.get("name", "") if isinstance(environment, Mapping) else environment
    if name is not None and not isinstance(name, str):
        raise NotImportable(f"its environment.name is not a text but {name!r:.100}")
    texts = isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    stored: dict[str, Any] = {
        "recorded": recorded if isinstance(recorded, dict) else {"value": recorded},
        "tags": [tag[:100] for tag in tags if tag] if tags and texts else [],
    }
    return stored | ({"environment": {"name": name}} if name else {})


def _is_foreign(config: Mapping[str, Any]) -> bool:
    """Return True for another trainer's configuration: marked as recorded, or without the sections of ours."""
    unknown, environment = config.keys() - RunConfig.model_fields.keys(), config.get("environment")
    general = {"name", "tags"}
    if not isinstance(environment, Mapping) or environment.keys() <= {"name"}:
        general.add("environment")
    own_sections = config.keys() - unknown - general
    return (
        "recorded" in config
        or not own_sections
        or (bool(unknown) and not own_sections >= {"policy", "rollout", "algorithm"})
    )


def _complete(config: dict[str, Any]) -> dict[str, Any]:
    """Complete the configuration with this version's defaults. Raises NotImportable."""
    try:
        RunConfig.model_validate(config)
    except ValidationError as error:
        problems = [item for item in error.errors() if item["type"] not in TOLERATED]
        if problems:
            where, text = as_messages(problems[:1])[0]
            raise NotImportable(f"its configuration cannot be read: {where} {text}") from None
    _check_size(config)
    return _merged(RunConfig().model_dump(mode="json"), config)


def _check_size(config: Mapping[str, Any]) -> None:
    try:
        size = len(json.dumps(config, allow_nan=False).encode())
    except (ValueError, RecursionError):
        raise NotImportable("its configuration holds a number or a character that cannot be stored") from None
    if size > MAX_CONFIG_BYTES:
        raise NotImportable(f"its configuration has {size:,} bytes, and at most {MAX_CONFIG_BYTES:,} are stored")


def _merged(base: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in overrides.items():
        inner = merged.get(key)
        merged[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, Mapping) else value
    return merged


@transaction.atomic
def do_settle_end(run: Run) -> Run:
    """Set the state of a run whose journal was read to its end only after the training.

    A trained run counts as failed until the end of its journal has been read; then the journal decides.
    """
    if run.imported:
        return do_finish_import(run, growing=False)
    locked = Run.objects.select_for_update().get(pk=run.pk)
    if (
        locked.state == Run.State.FAILED
        and ENDS.get(locked.end_reason) == Run.State.FINISHED
        and not locked.journal_error
    ):
        locked.state, locked.failure, locked.log_tail = Run.State.FINISHED, "", ""
        locked.save(update_fields=["state", "failure", "log_tail"])
        notify_on_commit(locked.pk)
    return locked


@transaction.atomic
def do_finish_import(run: Run, *, growing: bool) -> Run:
    """Set the run's state from the end of its journal; without an end it is running while the journal grows."""
    locked = Run.objects.select_for_update().get(pk=run.pk)
    if locked.end_reason in ENDS:
        state = ENDS[locked.end_reason]
    elif growing and not locked.end_reason:
        state = Run.State.RUNNING
    else:
        state = Run.State.STOPPED
    ended = state in Run.ENDED
    if locked.state != state or ended != bool(locked.ended_at):
        locked.state = state
        locked.failure = locked.end_message if state == Run.State.FAILED else ""
        locked.ended_at = timezone.now() if ended else None
        if ended:
            locked.tokens_per_second = None
            locked.eta_seconds = locked.eta_low_seconds = locked.eta_high_seconds = None
        speeds = ["tokens_per_second", "eta_seconds", "eta_low_seconds", "eta_high_seconds"]
        locked.save(update_fields=["state", "failure", "ended_at", *speeds])
        notify_on_commit(locked.pk)
        if ended:
            run_ended.send(Run, run=locked)
    return locked
