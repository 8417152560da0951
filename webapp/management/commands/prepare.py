"""`manage.py prepare`: migrates, collects static files, creates the first account; also for deployments.

Prints two lines: "ready" when pages can be served, then the facts as JSON.
"""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from bootstrap import stamp
from trainer.config.files import load_preset
from webapp.runs.actions import RequestRefused, do_create_run, do_request
from webapp.runs.models import Run
from webapp.teams.first_login import first_account, link
from webapp.teams.models import Team, User

PRESET = "sokoban-pocket"


class Command(BaseCommand):
    help = "Migrates, collects static files, creates the first account; with --demo also the demo run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="Launch or resume the demo run.")

    def handle(self, *args: Any, **options: Any) -> None:
        with connection.cursor() as cursor:  # a migration may take and wait for as long as it needs
            cursor.execute("SET lock_timeout = 0; SET statement_timeout = 0")
        call_command("migrate", interactive=False, verbosity=0)
        collect_static(Path(settings.STATIC_ROOT))
        print("ready", file=self.stdout, flush=True)
        print(json.dumps(facts(options["demo"])), file=self.stdout, flush=True)


def collect_static(target: Path) -> None:
    """Collect and compress static files if any have changed."""
    files = [(path, storage) for finder in get_finders() for path, storage in finder.list([])]
    current = sorted(f"{path} {Path(storage.path(path)).stat().st_mtime_ns}" for path, storage in files)
    digest = stamp.digest(current)
    if not stamp.is_current(target / ".stamp", digest):
        call_command("collectstatic", interactive=False, verbosity=0, clear=True)
        stamp.write(target / ".stamp", digest)


def facts(demo: bool) -> dict[str, str]:
    """The first account, its login link and the demo run."""
    account = first_account(settings.ECHOSCOPE_DATA_DIR / "first-account.json", "demo" if demo else "admin")
    if account is None:
        return {}
    user, password = account
    then = "/"
    if demo:
        then = f"/runs/{demo_run(user).slug}/"
    return {"username": user.username, "password": password, "login": link(user, then), "page": then}


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
        except RequestRefused:  # it has just ended
            pass
    return run
