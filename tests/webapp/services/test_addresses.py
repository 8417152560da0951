"""Ports of the embedded servers: kept while free, replaced when taken, out of reach of outgoing connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from webapp.services import addresses
from webapp.services.addresses import LOOPBACK, SERVER_PORTS, choose, free_port, is_free, stored_addresses


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
