"""Runs `manage.py nightly_backup` once a day, remembers the result, and tells staff when there is no good backup.

The result is stored in a file of the data folder: backups are for sites whose database is in that folder. Without
ECHOSCOPE_BACKUP_DIR there is nothing to do.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from webapp.core.mail import mail_is_configured
from webapp.teams.models import User

logger = logging.getLogger(__name__)

FILE = "nightly_backup.json"
HOUR = 2
"""Hour (UTC) after which the backup of a day is due."""
RETRY_AFTER = timedelta(hours=1)
OVERDUE = timedelta(hours=36)
"""Age of the last good backup from which staff are alerted: a night was missed."""
MAIL_EVERY = timedelta(hours=24)
MAX_SECONDS = 6 * 3600


@dataclass(frozen=True)
class BackupState:
    """State of the nightly backups; times in ISO format, empty for never."""

    since: str
    """Time when the site began to make backups."""
    tried_at: str = ""
    good_at: str = ""
    problem: str = ""
    mailed_at: str = ""


def read_state(now: datetime) -> BackupState:
    """Read the state; an unreadable file is ignored and will be replaced."""
    try:
        state = BackupState(**json.loads(_file().read_text(encoding="utf-8")))
        for time in (state.since, *filter(None, (state.tried_at, state.good_at, state.mailed_at))):
            datetime.fromisoformat(time)
        return state
    except (OSError, ValueError, TypeError):
        return BackupState(since=now.isoformat())


def problem(now: datetime) -> str:
    """Explain in a sentence why there is no good backup of the last night; empty if there is, or none is configured."""
    if not settings.ECHOSCOPE_BACKUP_DIR:
        return ""
    state = read_state(now)
    good = datetime.fromisoformat(state.good_at or state.since)
    if now - good <= OVERDUE and not state.problem:
        return ""
    last = f"The last good backup is of {good:%Y-%m-%d %H:%M} UTC." if state.good_at else "There is no good backup yet."
    return f"{state.problem or 'The nightly backup did not run.'} {last}"


def run_if_due(now: datetime) -> None:
    """Make the backup of the day unless it was made, and mail staff once a day while there is a problem."""
    if not settings.ECHOSCOPE_BACKUP_DIR:
        return
    state = read_state(now)
    if not _file().exists():
        _write(state)
    if _is_due(state, now):
        state = _run(state, now)
    if (text := problem(now)) and _long_ago(state.mailed_at, MAIL_EVERY, now):
        _write(replace(state, mailed_at=now.isoformat()))
        _tell_staff(text)


def _is_due(state: BackupState, now: datetime) -> bool:
    due = now.replace(hour=HOUR, minute=0, second=0, microsecond=0)
    due -= timedelta(days=1) if due > now else timedelta()
    made = bool(state.good_at) and datetime.fromisoformat(state.good_at) >= due
    return not made and _long_ago(state.tried_at, RETRY_AFTER, now)


def _long_ago(time: str, pause: timedelta, now: datetime) -> bool:
    return not time or now - datetime.fromisoformat(time) >= pause


def _run(state: BackupState, now: datetime) -> BackupState:
    """Run the command in a separate process, which frees its memory at its end."""
    _write(replace(state, tried_at=now.isoformat()))
    argv = [sys.executable, str(settings.ROOT / "manage.py"), "nightly_backup"]
    try:
        done = subprocess.run(argv, cwd=settings.ROOT, capture_output=True, text=True, timeout=MAX_SECONDS)
        failure = "" if done.returncode == 0 else done.stderr.strip().removeprefix("CommandError: ")[-1000:]
        failure = failure or ("" if done.returncode == 0 else f"The command ended with status {done.returncode}.")
    except subprocess.TimeoutExpired:
        failure = f"It took longer than {MAX_SECONDS // 3600} hours."
    except OSError as error:
        failure = f"The command did not start: {error}."
    if failure:
        logger.error("The nightly backup failed: %s", failure)
        state = replace(state, tried_at=now.isoformat(), problem=f"The nightly backup failed: {failure}")
    else:
        state = BackupState(since=state.since, tried_at=now.isoformat(), good_at=timezone.now().isoformat())
    _write(state)
    return state


def _tell_staff(text: str) -> None:
    """E-mail everyone who may enter Administration. A mail server that does not answer is only logged."""
    logger.error("%s", text)
    people = User.objects.filter(is_staff=True, is_active=True).exclude(email="").values_list("email", flat=True)
    if not mail_is_configured() or not people:
        return
    body = f"{text}\n\nSite: {settings.ECHOSCOPE_URL}\nFolder: {settings.ECHOSCOPE_BACKUP_DIR}\n"
    try:
        send_mail("Echoscope: no backup of the last night", body, None, list(people))
    except (SMTPException, OSError) as error:
        logger.warning("The mail about the backup could not be sent: %s", error)


def _file() -> Path:
    return Path(settings.ECHOSCOPE_DATA_DIR) / FILE


def _write(state: BackupState) -> None:
    new = _file().with_suffix(".new")
    new.write_text(json.dumps(asdict(state)), encoding="utf-8")
    new.replace(_file())
