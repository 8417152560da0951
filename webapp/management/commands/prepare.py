"""`manage.py prepare`: migrates, collects static files, creates the first account; also for deployments.

Prints two lines: "ready" when pages can be served, then the facts as JSON. They include name, password and one-time
link of the first account only if it was just created, or with --account: the output may end in a log.
"""

import hashlib
import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from trainer.config.files import load_preset
from webapp.core.private_files import make_private
from webapp.core.quotas import QuotaExceeded
from webapp.runs.actions import RequestRefused, do_request
from webapp.runs.launch.creation import do_create_run
from webapp.runs.models import Run
from webapp.teams.first_login import first_account, link
from webapp.teams.models import Team, User

PRESET = "sokoban-pocket"


class Command(BaseCommand):
    help = "Migrates, collects static files, creates the first account; with --demo also the demo run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="Launch or resume the demo run.")

        parser.add_argument("--account", action="store_true", help="Print the first account's link at every start.")

    def handle(self, *args: Any, **options: Any) -> None:
        make_private(settings.ECHOSCOPE_DATA_DIR)
        with connection.cursor() as cursor:  # a migration may take and wait for as long as it needs
            cursor.execute("SET lock_timeout = 0; SET statement_timeout = 0")
        call_command("migrate", interactive=False, verbosity=0)
        collect_static(Path(settings.STATIC_ROOT))
        print("ready", file=self.stdout, flush=True)
        print(json.dumps(facts(options["demo"], options["account"])), file=self.stdout, flush=True)


def collect_static(target: Path) -> None:
    """Collect and compress static files if any have changed."""
    files = [(path, storage) for finder in get_finders() for path, storage in finder.list([])]
    current = sorted(f"{path} {Path(storage.path(path)).stat().st_mtime_ns}" for path, storage in files)
    digest = hashlib.sha256("\n".join(current).encode()).hexdigest()  # the folder is served: no names of files
    stamp = target / ".stamp"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != digest:
        call_command("collectstatic", interactive=False, verbosity=0, clear=True)
        stamp.write_text(digest, encoding="utf-8")


def facts(demo: bool, always: bool = False) -> dict[str, str]:
    """The page of the demo run; for a new account, or always, also its name, password and login link."""
    account = first_account(settings.ECHOSCOPE_DATA_DIR / "first-account.json", "demo" if demo else "admin")
    if account is None:
        return {}
    user, then = account.user, "/"
    if demo:
        then = f"/runs/{demo_run(user).slug}/"
    if not account.new and not always:
        return {"page": then}
    return {"username": user.username, "password": account.password, "login": link(user, then), "page": then}


def demo_run(user: User) -> Run:
    """The newest demo run, resumed if it is paused or stopped; a new one if there is none."""
    team = Team.objects.writable_by(user).order_by("pk").first()
    assert team is not None, "do_create_team created one for this account"
    run = Run.objects.filter(team=team, preset=PRESET, imported=False).order_by("-pk").first()
    if run is None:
        return do_create_run(team, user, load_preset(PRESET), preset=PRESET)
    if run.state in (Run.State.PAUSED, Run.State.STOPPED):
        try:
            return do_request(run, "resume")
        except (RequestRefused, QuotaExceeded):  # it has just ended, or the queue is full
            pass
    return run
