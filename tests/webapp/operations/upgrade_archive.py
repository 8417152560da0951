"""`python -m tests.webapp.operations.upgrade_archive NAME`: keeps a small site of this version for upgrade tests."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests import conftest as servers  # before Django: its variables name the servers of the tests

FOLDER = Path(__file__).resolve().parents[2] / "data" / "upgrades"
MAX_BYTES = 100_000


def main(name: str) -> int:
    """Write tests/data/upgrades/NAME.zip. Returns the exit code."""
    import django

    django.setup()
    from django.core.management import call_command

    from tests.webapp.services.backup.small_site import create_small_site, served
    from webapp.services.backup.site_backup import create_backup
    from webapp.services.child_process import spawn, stop, wait_ready

    servers.POSTGRES.initialise()
    programs = [server.program(servers.HOME / "log" / "x.log") for server in (servers.POSTGRES, servers.REDIS)]
    processes = [spawn(program) for program in programs]
    try:
        for program, process in zip(programs, processes, strict=True):
            wait_ready(program, process, servers.SECONDS)
        servers.POSTGRES.create_database()
        with tempfile.TemporaryDirectory() as folder, served(servers.POSTGRES.url(), Path(folder)):
            call_command("migrate", verbosity=0)
            create_small_site(servers.POSTGRES.url(), Path(folder))
            report = create_backup(FOLDER / f"{name}.zip", Path(folder))
    finally:
        for program, process in zip(programs, processes, strict=True):
            stop(program, process)
        servers.pytest_unconfigure()
    sys.stdout.write(f"{FOLDER / name}.zip: {report.bytes:,} bytes, {len(report.manifest.migrations)} migrations.\n")
    return int(report.bytes > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
