"""The running product: restart of killed processes, refusal of a second instance, clean shutdown."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest

from tests import running_product
from tests.patience import SECONDS
from tests.running_product import LiveStack, wait_for
from webapp.services.addresses import ROOT
from webapp.services.child_process import command_line
from webapp.services.postgres import Postgres
from webapp.services.redis import Redis

PROGRAMS = ("PostgreSQL", "Redis", "Web", "Worker", "Clock")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_killed_process_is_restarted_and_pages_are_served_again(live_stack: LiveStack, program: str) -> None:
    gone = live_stack.kill(program)
    wait_for(lambda: live_stack.pid(program) != gone, f"another {program}", live_stack.logs)
    wait_for(lambda: status(live_stack, "/login") == 200, "the login page", live_stack.logs)
    assert command_line(live_stack.pid(program))


@pytest.mark.nightly
def test_suspended_processes_are_replaced(live_stack: LiveStack) -> None:
    gone = {program: live_stack.pid(program) for program in PROGRAMS}
    for pid in gone.values():
        os.kill(pid, signal.SIGSTOP)
    for program, pid in gone.items():
        wait_for(lambda program=program, pid=pid: live_stack.pid(program) != pid, f"another {program}", live_stack.logs)
    wait_for(lambda: status(live_stack, "/login") == 200, "the login page", live_stack.logs)


def test_a_second_instance_names_the_first_and_changes_nothing(live_stack: LiveStack) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT,
        env=running_product.clean_environment(live_stack.home),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1
    assert f"already running at {live_stack.url} (process {live_stack.process.pid})" in done.stderr
    assert "ECHOSCOPE_DATA_DIR=" in done.stderr
    assert "Traceback" not in done.stderr
    assert status(live_stack, "/login") == 200


def test_the_sign_in_link_works_exactly_once(live_stack: LiveStack) -> None:
    assert visit(live_stack.login_url) == live_stack.login_url, "opening it, as a preview does, does not use it up"
    first, second = use(live_stack.login_url), use(live_stack.login_url)
    assert "/welcome" not in first
    assert "/login" not in first
    assert "/login" in second


def test_manage_py_finds_the_embedded_database(live_stack: LiveStack) -> None:
    recorded = live_stack.manage(
        "shell", input="from webapp.teams.models import User; print(User.objects.get().username)"
    )
    assert "admin" in recorded


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that tests start and end one after the other; only the first start creates the database."""
    return tmp_path_factory.mktemp("restarted") / "var"


@pytest.mark.parametrize(
    "farewell",
    [
        signal.SIGKILL,
        *(pytest.param(number, marks=pytest.mark.nightly) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_no_process_is_left_after_any_exit(home: Path, farewell: signal.Signals) -> None:
    stack = running_product.start(home)
    wait_for(lambda: "programs" in (stack.home / "running.json").read_text(), "its note", stack.logs)
    pids = {name: stack.pid(name) for name in PROGRAMS}
    stack.process.send_signal(farewell)
    code = stack.process.wait(SECONDS)
    assert code == (-signal.SIGKILL if farewell == signal.SIGKILL else 0)
    wait_for(lambda: not using(stack.home), "its processes to end", lambda: str(using(stack.home)))
    assert not any(command_line(pid) for pid in pids.values())


def test_a_restart_keeps_the_data(home: Path) -> None:
    if not home.exists():
        running_product.stop(running_product.start(home))
    second = running_product.start(home)
    try:
        assert (second.login_url, second.password) == ("", ""), "a log gets them only when the account is new"
        account = json.loads((home / "first-account.json").read_text())
        users = "from webapp.teams.models import User; print([user.username for user in User.objects.all()])"
        assert second.manage("shell", input=users).strip().endswith(f"['{account['username']}']")
    finally:
        running_product.stop(second)


@pytest.mark.nightly
def test_external_servers_are_used_and_none_is_started(
    tmp_path: Path, postgres_server: Postgres, redis_server: Redis
) -> None:
    postgres_server.create_database("given")
    addresses = {"DATABASE_URL": postgres_server.url("given"), "REDIS_URL": redis_server.url(1)}
    stack = running_product.start(tmp_path / "var", extra=addresses)
    try:
        programs = json.loads((stack.home / "running.json").read_text()).get("programs", {})
        assert not {"PostgreSQL", "Redis"} & set(programs)
        assert not (stack.home / "postgres").exists()
        with psycopg.connect(postgres_server.url("given")) as connection:
            assert connection.execute("SELECT username FROM teams_user").fetchall() == [(stack.username,)]
    finally:
        running_product.stop(stack)


def status(stack: LiveStack, path: str) -> int:
    host = stack.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def visit(url: str) -> str:
    """Final URL of a browser without cookies."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    try:
        with opener.open(url, timeout=SECONDS) as answer:
            return str(answer.url)
    except urllib.error.HTTPError as answer:  # a page that does not exist yet is still the link's target
        return str(answer.url)


def use(link: str) -> str:
    """Final URL of a browser without cookies that presses the button of the one-time link."""
    cookies = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    with opener.open(link, timeout=SECONDS) as page:
        field = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.read().decode())
        if field is None:
            return str(page.url)
    with opener.open(link, data=urlencode({"csrfmiddlewaretoken": field[1]}).encode(), timeout=SECONDS) as answer:
        return str(answer.url)


def using(home: Path) -> list[int]:
    """Processes that have this data folder in their environment or on their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            text = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if str(home).encode() in text and pid != os.getpid():
            found.append(pid)
    return found
