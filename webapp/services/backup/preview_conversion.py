"""Converts backups of the preview before 0.1.0 (commit ccb229f6 or later) for `manage.py restore`.

The preview had other migrations, names of settings and secrets of webhooks. Its rows are loaded into this version's
tables, and everything that this version would refuse is converted, in the database and in the folders of runs.
Evaluation suites keep their names, and copies in object storage are not converted: a run whose files are only there
keeps its pages, but cannot be resumed.

Delete this module, its call in site_restore.py, and its test with its data in 0.3.0.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import yaml
from django.apps import apps
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection
from psycopg import sql
from pydantic import ValidationError

from trainer.config.removed import without_removed
from trainer.config.run import POCKET, RunConfig
from trainer.journal.protocol import CHECKPOINT_STATE, CHECKPOINTS_FOLDER, CONFIG_FILE, JOURNAL_FILE
from webapp.annotations.models import Comment
from webapp.notifications.actions import mention_entry
from webapp.notifications.models import Notification, NotificationPreference, Rule
from webapp.runs.models import Run
from webapp.saved_views.models import SavedView
from webapp.services.backup.archive import ArchiveManifest, ArchiveReader, BackupError
from webapp.studies.models import Study
from webapp.trajectories.models import Trajectory

COMMIT = "ccb229f6"
_FIRST = ("runs", "0001_squashed")
_NEEDED = {
    ("alerts", "0007_former_secrets"),
    ("annotations", "0002_renamed_models"),
    ("api", "0004_swept_images"),
    ("notifications", "0001_notifications"),
    ("reports", "0001_reports"),
    ("runs", "0023_claimed_by"),
    ("studies", "0001_studies"),
    ("teams", "0005_removals"),
    ("trajectories", "0014_unknown_tokens_and_format"),
}
_MIGRATIONS = "django_migrations"
_DROPPED = {
    "annotations_mention": {"slug", "created_at", "read_at", "mail_at", "mail_tries"},
    "reports_report": {"archived_at"},
    "teams_removal": {"kind", "subject", "data"},
}
"""Columns of the preview that its tables no longer have in this version, by table."""
_MOVED = {f"alerts_{name}": f"notifications_{name}" for name in ("alertaddress", "delivery", "deliveryattempt", "rule")}
"""Table of the preview → table of this version."""
_NOT_LOADED = {"alerts_stalledrun"}
"""Tables of the preview with rows that follow from other rows."""
_ASIDE = {"annotations_mailpreference": "former_mail_preference", "annotations_mention": "former_mention"}
"""Table of the preview → temporary table with its rows, from which _convert_mentions makes rows of other tables."""
_SECRET = "echosec_"
_STARTED = b'"type":"run_started"'
_RENAMED = {
    "algorithm.anchor_weight": "gigpo_omega",
    "algorithm.filter": "group_filter",
    "algorithm.filter_keep": "group_filter_keep",
    "algorithm.lam": "gae_lambda",
    "algorithm.reuse": "updates_per_rollout",
    "diagnostics.gradient_split_every": "gradient_terms_every",
    "echo_trap.rewind_limit": "max_rewinds",
    "echo_trap.sensitivity": "spread_threshold",
    "engine.cache_gib": "cpu_kv_cache_gib",
    "engine.eager": "enforce_eager",
    "engine.memory": "gpu_memory_utilization",
    "engine.patience": "server_timeout",
    "engine.rows": "max_num_seqs",
    "engine.sleep": "sleep_between_rollouts",
    "engine.weights": "weights_dir",
    "evaluation.samples": "samples_per_prompt",
    "hosted.extra": "extra_body",
    "hosted.key_variable": "api_key_env",
    "hosted.limit_name": "max_tokens_param",
    "hosted.longest_wait": "max_backoff",
    "hosted.price_in": "prompt_price_per_million",
    "hosted.price_out": "completion_price_per_million",
    "hosted.without": "unsupported_params",
    "memory.guard": "preflight",
    "memory.rows": "max_concurrent_trajectories",
    "optimizer.shared_prompts": "prefix_sharing",
    "optimizer.update_batch": "mini_batch_trajectories",
    "sft.depth": "max_solution_length",
    "sinks": "trackers",
    "warmup.lesson_steps": "single_state_steps",
}
"""Former dotted name of a setting → its name. Databases have the present names, old files of runs the former ones."""


def is_preview(manifest: ArchiveManifest) -> bool:
    """Return True for a backup of the preview. Raises BackupError if it is too old."""
    applied = set(manifest.migrations)
    if _FIRST not in applied:
        return False
    if _NEEDED - applied:
        raise BackupError(
            f"The backup was written by a preview before the commit {COMMIT}. Nothing was changed. Update that "
            f"installation to {COMMIT}, start it once, and make a new backup."
        )
    return True


# -- tables -----------------------------------------------------------------------------------------------------------


def load(archive: ArchiveReader, runs: Path) -> None:
    """Create this version's tables with the converted rows, in Django's open transaction.

    The extracted folders of runs below `runs` are converted in place. Raises BackupError.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN "
            "('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout')"
        )
        call_command("migrate", interactive=False, verbosity=0)
        _load_rows(archive, cursor)
        for statement in connection.ops.sequence_reset_sql(no_style(), list(_models().values())):
            cursor.execute(statement)
        call_command("migrate", interactive=False, verbosity=0)  # content types and permissions of new models
    _convert(runs)


def _load_rows(archive: ArchiveReader, cursor: Any) -> None:
    """Replace the rows of this version's tables with the rows of the archive.

    Columns that were added since get their field's default. Raises BackupError if a table, or a column that is not in
    _DROPPED, is missing.
    """
    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a table with pending checks cannot be emptied
    models = _models()
    cursor.execute(sql.SQL("TRUNCATE {}").format(_names(models)))
    cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    former: dict[str, dict[str, str]] = {}
    for column in archive.manifest.preview["database"]["schema"]["columns"]:
        if not column["generated"] and column["table"] not in {_MIGRATIONS, *_NOT_LOADED}:
            former.setdefault(column["table"], {})[column["name"]] = column["type"]
    for former_table, types in former.items():
        table, former_rows = current_table(former_table), _ASIDE.get(former_table, "former")
        _copy_rows(archive, cursor, former_rows, former_table, types)
        if table not in models and former_table in _ASIDE:
            continue
        fields = {field.column: field for field in models[table]._meta.local_fields} if table in models else {}
        if missing := types.keys() - fields.keys() - _DROPPED.get(table, set()):
            raise BackupError(f"This version has no {table} with {', '.join(sorted(missing))}: nothing was restored.")
        kept = [name for name in types if name in fields]
        added = {
            name: _default(field)
            for name, field in fields.items()
            if name not in types and not field.null and not field.generated
        }
        statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
            sql.Identifier(table),
            _names([*kept, *added]),
            sql.SQL(", ").join([*map(sql.Identifier, kept), *map(sql.Literal, added.values())]),
            sql.Identifier(former_rows),
        )
        cursor.execute(statement)
        if cursor.rowcount != (expected := archive.manifest.preview["rows"][former_table]):
            raise BackupError(f"{cursor.rowcount} rows of {table} arrived instead of {expected}: nothing was restored.")
        cursor.execute("DROP TABLE IF EXISTS former")


def _copy_rows(archive: ArchiveReader, cursor: Any, target: str, table: str, types: Mapping[str, str]) -> None:
    """Copy a table of the archive into a temporary one."""
    definitions = (sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in types.items())
    columns, name = sql.SQL(", ").join(definitions), sql.Identifier(target)
    cursor.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(name, columns))
    statement = sql.SQL("COPY {} FROM STDIN").format(name)
    with cursor.copy(statement) as copy, archive.open(f"tables/{table}") as rows:
        shutil.copyfileobj(rows, copy)


def current_table(table: str) -> str:
    """Return the name of a preview table in this version."""
    return _MOVED.get(table, table)


def _models() -> dict[str, Any]:
    """Return models by table."""
    models = apps.get_models(include_auto_created=True)
    return {model._meta.db_table: model for model in models if not model._meta.proxy}


def _names(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _default(field: Any) -> Any:
    value = field.get_default()
    return json.dumps(value) if isinstance(value, dict | list) else value


# -- contents of rows and files ---------------------------------------------------------------------------------------


def _convert(runs: Path) -> None:
    Run.objects.update(data_folder="", journal_tail="")
    for run in Run.objects.only("slug", "config", "journal_offset"):
        converted = current_config(run.config, _meanings(runs / run.slug) if run.journal_offset > 0 else None)
        if converted != run.config:
            Run.objects.filter(pk=run.pk).update(config=converted)
        if (runs / run.slug).is_dir():
            _convert_folder(runs / run.slug, converted)
    Trajectory.objects.update(worst_mark=None)  # judged again, for the comments that the preview did not store
    for study in Study.objects.only("spec"):
        Study.objects.filter(pk=study.pk).update(spec=current_spec(study.spec))
    for rule in Rule.objects.only("secret", "former_secrets"):
        former = [entry | {"secret": current_secret(entry["secret"])} for entry in rule.former_secrets]
        Rule.objects.filter(pk=rule.pk).update(secret=current_secret(rule.secret), former_secrets=former)
    _convert_mentions()
    for view in SavedView.objects.only("query"):
        SavedView.objects.filter(pk=view.pk).update(query=current_query(view.query))


def _convert_mentions() -> None:
    """Convert mentions to inbox entries, and keep users' choice to receive no e-mails about them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT slug, comment_id, user_id, created_at, read_at FROM former_mention")
        mentions = cursor.fetchall()
        cursor.execute("SELECT user_id FROM former_mail_preference WHERE NOT mail")
        without_mail = [user for (user,) in cursor.fetchall()]
    comments = Comment._base_manager.select_related("author", "trajectory__run", "trajectory__group").in_bulk(
        [comment for _, comment, *_ in mentions]
    )
    Notification.objects.bulk_create(
        mention_entry(comments[comment], slug=slug, user_id=user, created_at=created_at, read_at=read_at)
        for slug, comment, user, created_at, read_at in mentions
    )
    for user in without_mail:
        NotificationPreference.objects.update_or_create(user_id=user, defaults={"mention_mail": False})


def current_config(config: Mapping[str, Any], meanings: int | None = None) -> dict[str, Any]:
    """Return a stored configuration, complete or not, with this version's names and defaults.

    Args:
        meanings: version of the settings' meanings when the run began; None if it has not begun.
    """
    if "recorded" in config:  # another trainer's
        return dict(config)
    result = _renamed(config)
    for section, settings in result.items():
        if isinstance(settings, Mapping):
            result[section] = _renamed(settings, f"{section}.")
    result = without_removed(result)
    if isinstance(environment := result.get("environment"), Mapping):
        result["environment"] = environment = dict(environment)
        if environment.pop("defaults_version", None) == 1:
            for entry in (environment, *environment.get("mix", [])):
                if entry.get("name") == "LargeSokoban":
                    entry["settings"] = {"typical_length": None} | entry.get("settings", {})
    return result if meanings is None else _as_begun(result, meanings)


def current_secret(secret: str) -> str:
    """Return a webhook's secret in the form of Standard Webhooks, with the same key."""
    return "whsec_" + base64.b64encode(secret.encode()).decode() if secret.startswith(_SECRET) else secret


def current_query(query: str) -> str:
    """Return a saved query string with the group of trajectories counted from 1."""
    pairs = parse_qsl(query, keep_blank_values=True)
    if not any(name == "group" and value.isdecimal() for name, value in pairs):
        return query
    return urlencode([("group_number", int(value) + 1) if name == "group" else (name, value) for name, value in pairs])


def current_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's plan with this version's names."""
    result = dict(spec)
    if isinstance(spec.get("config"), Mapping):
        result["config"] = current_config(spec["config"])
    if isinstance(spec.get("overrides"), Mapping):
        result["overrides"] = {_dotted(name): value for name, value in spec["overrides"].items()}
    for part in ("axes", "space"):
        if isinstance(spec.get(part), list):
            result[part] = [it | {"setting": _dotted(it["setting"])} for it in spec[part]]
    return result


def _dotted(name: str) -> str:
    section, dot, _ = name.rpartition(".")
    return f"{section}{dot}{_RENAMED[name]}" if name in _RENAMED else name


def _renamed(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    return {_RENAMED.get(prefix + name, name): value for name, value in settings.items()}


def _as_begun(config: dict[str, Any], meanings: int) -> dict[str, Any]:
    """Return the settings that now do what these did when the run began."""
    algorithm = config.get("algorithm", {})
    if meanings < 1 and algorithm.get("estimator") == "reinforce_plus_plus":
        config["algorithm"] = algorithm | {"estimator": "reinforce_plus_plus_verl"}
    if meanings < 3 and config.get("policy", {}).get("model", POCKET) != POCKET:
        chosen = {
            "rollout": {"format_line": "placeholders"},
            "environment": {"cells": "compact"},
        }
        for section, values in chosen.items():
            present = {name: value for name, value in config.get(section, {}).items() if value != "auto"}
            config[section] = values | present
    return config


def _meanings(folder: Path) -> int:
    """Return the version of the settings' meanings when the run began; without a checkpoint here, the preview's."""
    states = sorted((folder / CHECKPOINTS_FOLDER).glob(f"*/{CHECKPOINT_STATE}"))
    if not states:
        return 2
    with suppress(OSError, ValueError):
        return int(json.loads(states[-1].read_text()).get("meanings", 0))
    return 2


def _convert_folder(folder: Path, config: dict[str, Any]) -> None:
    """Convert settings in a run's folder, keeping modification times and the length of the journal."""
    try:
        digest = RunConfig.model_validate(config).digest()
    except ValidationError:
        digest = ""
    for state in folder.rglob(CHECKPOINT_STATE):
        with suppress(OSError, ValueError):
            facts = json.loads(state.read_text())
            facts.pop("meanings", None)
            _rewrite(state, json.dumps({"files": {}} | facts | {"config_digest": digest}))
    if (settings := folder / CONFIG_FILE).exists():
        _rewrite(settings, yaml.safe_dump(config, sort_keys=False))
    if (ids := folder / "sinks.json").exists() and not (folder / "trackers.json").exists():
        ids.rename(folder / "trackers.json")
    if (journal := folder / JOURNAL_FILE).exists():
        _convert_journal(journal)


def _convert_journal(path: Path) -> None:
    """Convert the configurations in a journal in place, because the site knows how many bytes it has read."""
    times, standard = path.stat(), RunConfig().model_dump(mode="json")
    with path.open("r+b") as file:
        position = 0
        for line in iter(file.readline, b""):
            if _STARTED in line[:200] and line.endswith(b"}\n"):
                file.seek(position)
                file.write(_converted_line(line, standard))
                file.seek(position + len(line))
            position += len(line)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _converted_line(line: bytes, standard: Mapping[str, Any]) -> bytes:
    """Return the line with a converted configuration and the same length: sections with default settings make room."""
    try:
        event = json.loads(line)
        converted = current_config(event["config"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return line
    if converted == event["config"]:
        return line
    event["config"] = {name: value for name, value in converted.items() if value != standard.get(name)}
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    return text[:-1].ljust(len(line) - 2) + b"}\n" if len(text) < len(line) else line


def _rewrite(path: Path, text: str) -> None:
    """Replace the contents of a file, keeping its times."""
    times = path.stat()
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
