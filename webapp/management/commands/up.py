"""`manage.py up`: the whole site as one supervised group of processes, until Ctrl-C."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from bootstrap.progress import SetupError
from webapp.core.private_files import DataFolderError
from webapp.services.lock import AlreadyRunning
from webapp.services.postgres import PostgresError
from webapp.services.redis import RedisError
from webapp.services.startup import Options, StartupError, run


class Command(BaseCommand):
    help = "Starts the database, Redis, the web server and a worker as one group. Ctrl-C stops all of them."
    requires_system_checks = ()
    demo = False
    reload = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-browser", action="store_true", help="Do not open the page in a browser.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run(Options(demo=self.demo, open_browser=not options["no_browser"], reload=self.reload))
        except (AlreadyRunning, DataFolderError, StartupError, PostgresError, RedisError, SetupError) as error:
            raise CommandError(str(error)) from None
