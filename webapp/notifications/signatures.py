"""Signatures of webhooks: Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """Return a signing key of 256 bits: `whsec_` and its base64."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def standard_headers(keys: Sequence[str], message_id: str, body: bytes, time: int) -> dict[str, str]:
    """Return the headers of a signed attempt.

    Args:
        keys: secrets of the rule, at least one; each adds a signature, separated by spaces.
        message_id: the same in all attempts of a delivery.
        time: time of the attempt, in seconds since 1970.
    """
    message = f"{message_id}.{time}.".encode() + body
    digests = [hmac.new(_key(secret), message, hashlib.sha256).digest() for secret in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(time),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests),
    }


def _key(secret: str) -> bytes:
    """Return the key in a secret."""
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
