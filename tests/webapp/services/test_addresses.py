"""Ports of the embedded servers: kept while free, replaced when taken, out of reach of outgoing connections."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from webapp.services import addresses
from webapp.services.addresses import LOOPBACK, ROOT, SERVER_PORTS, choose, free_port, is_free, stored_addresses


@pytest.fixture
def taken() -> Iterator[int]:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as server:
        server.bind((LOOPBACK, 0))
        server.listen()
        yield int(server.getsockname()[1])


def test_servers_get_ports_that_no_outgoing_connection_is_given() -> None:
    ports = [free_port() for _ in range(50)]
    assert all(port in SERVER_PORTS for port in ports)
    assert len(set(ports)) > 1
    assert SERVER_PORTS.stop <= 32768, "Linux gives ports from here on to outgoing connections"


def test_any_free_port_will_do_when_these_are_taken(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    monkeypatch.setattr(addresses, "SERVER_PORTS", [taken])
    assert not is_free(taken)
    assert is_free(free_port(tries=3))


def test_ports_are_kept_while_they_are_free_and_replaced_when_taken(tmp_path: Path) -> None:
    first = choose(tmp_path)
    assert choose(tmp_path) == first == stored_addresses(tmp_path)
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as server:
        server.bind((LOOPBACK, first.redis_port))
        server.listen()
        second = choose(tmp_path)
    assert (second.postgres_port, second.redis_password) == (first.postgres_port, first.redis_password)
    assert second.redis_port != first.redis_port
    assert stored_addresses(tmp_path) == second


@pytest.mark.parametrize("below", ["", "folder"])
@pytest.mark.parametrize("command", ["up", "check"])
def test_a_file_in_place_of_the_data_folder_is_explained(tmp_path: Path, below: str, command: str) -> None:
    file = tmp_path / "data"
    file.write_text("notes")
    env = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    argv = [sys.executable, "manage.py", command]
    env |= {"ECHOSCOPE_DATA_DIR": str(file / below)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"The data folder {file / below} cannot be written: Not a directory." in done.stderr
    assert "A file has this name" in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_text() == "notes"


@pytest.mark.parametrize(("what", "words"), [("damaged", "services.json is damaged"), ("circle", "Too many levels")])
@pytest.mark.parametrize("command", ["up", "check"])
def test_a_data_folder_that_cannot_be_read_is_explained(tmp_path: Path, what: str, words: str, command: str) -> None:
    folder = tmp_path / "data"
    if what == "circle":
        folder.symlink_to(folder)
    else:
        folder.mkdir()
        (folder / "services.json").write_text("{")
    env = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    argv = [sys.executable, "manage.py", command]
    done = subprocess.run(argv, cwd=ROOT, env=env | {"ECHOSCOPE_DATA_DIR": str(folder)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Nothing was started." in done.stderr
    assert "Traceback" not in done.stderr
