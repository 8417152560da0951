"""Webhook targets: no private networks, no redirects, bounded responses."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest
from pytest_django import Settings

from tests.webapp.notifications.receiver import Receiver, listening
from webapp.notifications import webhooks
from webapp.notifications.webhooks import WebhookRefused, check_port, check_url, is_public, post


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1.2.3:8000/x",
        "http://10.0.0.5/",
        "http://192.168.1.1/",
        "http://172.16.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://[::1]/",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://255.255.255.255/",
        "http://192.0.0.192/",
        "http://192.88.99.1/",
        "http://198.18.0.1/",
        "http://240.0.0.1/",
        "http://[fec0::1]/",
        "http://[::7f00:1]/",
        "http://[::ffff:0:7f00:1]/",
        "http://[::ffff:0:808:808]/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[2001:0:7f00:1::]/",
        "http://[2001:db8::1]/",
        "http://[2002:808:808::]/",
        "http://[3fff::1]/",
        "http://[4000::1]/",
        "http://[ff02::1]/",
    ],
)
def test_addresses_of_private_networks_are_refused(url: str, settings: Settings) -> None:
    settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS = []
    with pytest.raises(WebhookRefused, match="private network"):
        check_url(url)
    outcome = post(url, b"{}", {})
    assert (outcome.ok, outcome.status) == (False, None)
    assert "private network" in outcome.answer


@pytest.mark.parametrize(
    "url, message",
    [
        ("ftp://example.org/", "must begin with https"),
        ("file:///etc/passwd", "must begin with https"),
        ("javascript:alert(1)", "must begin with https"),
        ("example.org", "must begin with https"),
        ("https://", "has no host"),
        ("https://ada:secret@example.org/", "name or a password"),
        ("https://example.org:99999/", "not a valid URL"),
    ],
)
def test_non_http_addresses_are_refused(url: str, message: str) -> None:
    with pytest.raises(WebhookRefused, match=message):
        check_url(url)


@pytest.mark.parametrize(
    ("port", "allowed"), [(80, True), (443, True), (8443, True), (22, False), (25, False), (6379, False), (8080, False)]
)
def test_only_ports_of_web_servers_are_allowed(port: int, allowed: bool, settings: Settings) -> None:
    target = check_url(f"https://hooks.example.org:{port}/x")
    if allowed:
        check_port(target)
        return
    with pytest.raises(WebhookRefused, match=f"only, not to {port}.*ECHOSCOPE_ALERT_PORTS=80,443,8443,{port}"):
        check_port(target)
    settings.ECHOSCOPE_ALERT_PORTS = ["443", str(port)]
    check_port(target)
    settings.ECHOSCOPE_ALERT_PORTS = ["443"]
    settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS = ["hooks.example.org"]
    check_port(target)


def test_a_port_of_another_service_is_refused_when_an_alert_is_sent(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: list[Any] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 25))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: entries)
    assert "not to 25" in post("http://mail.example.org:25/", b"{}", {}).answer


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "192.0.1.1"])
def test_public_addresses_are_accepted(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("spelling", ["localhost", "127.1", "2130706433", "0x7f000001"])
def test_alternative_spellings_of_localhost_are_refused(spelling: str, settings: Settings) -> None:
    settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS = []
    with listening(Receiver()) as receiver:
        outcome = post(f"http://{spelling}:{receiver.port}/", b"{}", {})
        assert not outcome.ok
        assert receiver.requests == []


def test_a_name_with_any_private_address_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS = []
    entries: list[Any] = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 80)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: entries)
    assert "private network" in post("http://two-faced.example.org/", b"{}", {}).answer


def test_the_connection_goes_to_the_address_that_was_checked(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding has no effect: the name is resolved only once."""
    settings.ECHOSCOPE_ALERT_PRIVATE_HOSTS = ["turncoat.example.org"]
    resolved: list[str] = []

    def resolve(host: str, port: int, *args: object, **kwargs: object) -> list[Any]:
        resolved.append(str(host))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", int(port)))]

    with listening(Receiver()) as receiver:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        outcome = post(f"http://turncoat.example.org:{receiver.port}/hook", b"{}", {})
        assert outcome.ok
        assert receiver.requests[0][0]["Host"] == f"turncoat.example.org:{receiver.port}"
    assert resolved.count("turncoat.example.org") == 1


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    with listening(Receiver()) as inner:
        receiver.statuses, receiver.location = [302], inner.url
        outcome = post(receiver.url, b"{}", {})
        assert (outcome.ok, outcome.status) == (False, 302)
        assert "not followed" in outcome.answer
        assert inner.requests == []


def test_an_endless_response_is_read_only_up_to_the_limit(receiver: Receiver) -> None:
    receiver.body = b"y" * 5_000_000
    outcome = post(receiver.url, b"{}", {})
    assert outcome.ok
    assert outcome.answer == "y" * webhooks.MAX_RESPONSE_BYTES


def test_a_slow_trickling_response_times_out(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT", 0.3)
    receiver.body, receiver.drip = b"z" * 1000, 0.02
    assert post(receiver.url, b"{}", {}).answer == "No response within 0 s."


def test_a_closed_port_and_an_unknown_host_are_explained(settings: Settings) -> None:
    with listening(Receiver()) as receiver:
        url = receiver.url
    assert post(url, b"{}", {}).answer.startswith("No response:")
    assert "Cannot resolve no-such-host.invalid: " in post("http://no-such-host.invalid/", b"{}", {}).answer


def test_proxy_environment_variables_are_ignored(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert post(receiver.url, b"{}", {}).ok
