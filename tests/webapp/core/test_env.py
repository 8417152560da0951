"""Mail and sign-in settings from environment variables."""

from __future__ import annotations

import pytest

from webapp.core import env


def test_without_a_mail_url_mail_is_neither_sent_nor_logged() -> None:
    assert env.mail("").backend.endswith("dummy.EmailBackend")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://robot:p%40ss@mail.example.org", ("mail.example.org", 587, "robot", "p@ss", True, False)),
        ("smtp://localhost:1025?starttls=off", ("localhost", 1025, "", "", False, False)),
        ("smtps://robot:x@mail.example.org", ("mail.example.org", 465, "robot", "x", False, True)),
    ],
)
def test_the_mail_url_configures_sending(url: str, expected: tuple[object, ...]) -> None:
    mail = env.mail(url)
    assert mail.backend.endswith("smtp.EmailBackend")
    assert (mail.host, mail.port, mail.user, mail.password, mail.starttls, mail.tls) == expected


@pytest.mark.parametrize("url", ["mail.example.org", "http://mail.example.org", "smtp://"])
def test_an_invalid_mail_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ValueError, match="smtp://user:password@host:587"):
        env.mail(url)


def test_single_sign_on_needs_issuer_and_client(monkeypatch: pytest.MonkeyPatch) -> None:
    assert env.openid("TRY_OIDC") == {}
    monkeypatch.setenv("TRY_OIDC_ISSUER", "https://login.example.org/realm")
    with pytest.raises(ValueError, match="TRY_OIDC_CLIENT_ID"):
        env.openid("TRY_OIDC")
    monkeypatch.setenv("TRY_OIDC_CLIENT_ID", "echoscope")
    app = env.openid("TRY_OIDC")["openid_connect"]["APPS"][0]
    assert (app["name"], app["client_id"]) == ("login.example.org", "echoscope")
    monkeypatch.setenv("TRY_OIDC_NAME", "Example")
    assert env.openid("TRY_OIDC")["openid_connect"]["APPS"][0]["name"] == "Example"
