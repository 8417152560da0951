"""Signatures of webhooks against a vector of the reference library of Standard Webhooks."""

from __future__ import annotations

import base64

from webapp.notifications.signatures import new_secret, standard_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'


def test_a_signature_is_that_of_the_reference_library() -> None:
    headers = standard_headers([SECRET], "msg_p5jXN8AQM9LWM0D4loKWxJek", BODY, 1614265330)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_every_secret_has_a_signature_of_its_own() -> None:
    other = new_secret()
    both = standard_headers([SECRET, other], "a", BODY, 1)["webhook-signature"].split(" ")
    each = [standard_headers([secret], "a", BODY, 1)["webhook-signature"] for secret in (SECRET, other)]
    assert both == each
    assert len(set(both)) == 2


def test_new_secrets_are_keys_of_256_bits() -> None:
    secrets = {new_secret() for _ in range(20)}
    assert len(secrets) == 20
    assert {len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) for secret in secrets} == {32}
