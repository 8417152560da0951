"""Servers for the tests: each test process starts its own PostgreSQL and Redis on first use.

PostgreSQL's data is a copy of a folder that was migrated once (`migrated_database.py`).

Workers of xdist therefore share no database, queue or channel. Both servers end with the test process, even when it
is killed. `running_product.py` runs the whole product as one process group.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import django
import pytest
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import settings
from pytest_django import DjangoDbBlocker
from whitenoise.middleware import WhiteNoiseMiddleware

from bootstrap.bundle import bundle
from tests import migrated_database
from tests.chromium import browser
from tests.patience import SECONDS
from tests.running_product import live_stack
from webapp.services.addresses import ROOT, free_port
from webapp.services.child_process import Program, spawn, stop, wait_ready
from webapp.services.postgres import Postgres
from webapp.services.redis import Redis

__all__ = ["browser", "live_stack"]

Server = TypeVar("Server", Postgres, Redis)

HOME = Path(tempfile.mkdtemp(prefix="echoscope-test-"))
(HOME / "static").mkdir()  # WhiteNoise warns without it
POSTGRES = Postgres(HOME / "postgres", free_port(), migrated_database.password(), durable=False)
REDIS = Redis(HOME / "redis", free_port(), secrets.token_urlsafe(8))

# Before Django reads its settings. An external URL would make the tests destroy real data.
os.environ.update(
    DJANGO_SETTINGS_MODULE="webapp.settings",
    ECHOSCOPE_DATA_DIR=str(HOME),
    # a test is one transaction, however long
    DATABASE_URL=f"{POSTGRES.url(migrated_database.NAME)}?options=-c%20lock_timeout%3D60s",
    REDIS_URL=REDIS.url(),
)


def pytest_configure(config: pytest.Config) -> None:
    """Bundle the scripts of the pages, and set Django up now: pytest-django does so only once settings are configured.

    The variable is removed afterwards: an inheriting xdist worker would read this process's URLs, too early.
    """
    if not hasattr(config, "workerinput"):
        bundle()  # settings look for its folder
    django.setup()
    TransactionTestCase._fixture_teardown = migrated_database.delete_rows
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


# Without deadlines, since the time of an example depends on the machine's load. The same examples for every commit, so
# that a commit fails by its own change; `make test-all` looks for new ones.
settings.register_profile("ci", deadline=None, max_examples=20, derandomize=True, database=None)
settings.register_profile("nightly", deadline=None, max_examples=200)
settings.load_profile("ci")

SLOWEST = {
    *("setup/test_wheel.py", "trainer/cluster/test_learner_actors.py", "trainer/cluster/test_rollout_actors.py"),
    *("trainer/distributed/test_rank_group.py", "trainer/studies/test_studies.py", "webapp/test_permissions.py"),
    *("webapp/services/backup/test_preview_conversion.py", "webapp/worker/test_ray_cluster.py"),
}
"""Files that begin first: at the end, one process would work on them while the others have nothing left to do."""
WHOLE_PRODUCT = ("browser", "system")
"""Tests with the whole running product: the only ones with a second try."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the slowest files, and repeat a failure of a test of the whole product once.

    The summary lists it as RERUN with its failure. The time of the steps of these tests depends on the machine's load;
    all other tests count at once.
    """
    items.sort(key=lambda item: item.path.relative_to(ROOT / "tests").as_posix() not in SLOWEST)
    if not config.pluginmanager.hasplugin("rerunfailures"):  # in vLLM's environment
        return
    for item in items:
        if item.path.relative_to(ROOT / "tests").as_posix().startswith(WHOLE_PRODUCT):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the failures of first tries: a second try may fail on what the first one has left."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_sep("_", f"first try of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """This process's PostgreSQL, with all tables of the site, empty and fast (no fsync)."""
    migrated_database.copy_to(POSTGRES.folder)
    yield from _running(POSTGRES.program(HOME / "log" / "postgres.log"), POSTGRES)


@pytest.fixture(scope="session", autouse=True)
def redis_server() -> Iterator[Redis]:
    """This process's Redis. It starts within milliseconds, so every test may rely on it."""
    yield from _running(REDIS.program(HOME / "log" / "redis.log"), REDIS)


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_listed_once() -> Iterator[None]:
    """Every test client makes its own middleware, for which WhiteNoise would examine 240 files."""
    listed: dict[tuple[object, ...], dict[str, object]] = {}
    examine = WhiteNoiseMiddleware.add_files_from_finders

    def add(middleware: WhiteNoiseMiddleware) -> None:
        key = (middleware.static_prefix, middleware.static_root, middleware.max_age)
        if key not in listed:
            examine(middleware)
            listed[key] = dict(middleware.files)
        middleware.files.update(listed[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture(scope="session")
def django_db_setup(
    postgres_server: Postgres, django_test_environment: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Replaces pytest-django's fixture, which creates and migrates a database: this one is migrated already."""
    yield
    with django_db_blocker.unblock():
        connection.close()


def _running(program: Program, server: Server) -> Iterator[Server]:
    process = spawn(program)
    try:
        wait_ready(program, process, SECONDS)
        yield server
    finally:
        stop(program, process)
