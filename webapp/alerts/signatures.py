"""The signature of a webhook: HMAC-SHA256 over the time and the body, so that neither can be changed."""

from __future__ import annotations

import hashlib
import hmac

HEADER = "Echoscope-Signature"


def sign(secret: str, body: bytes, time: int) -> str:
    """The header's value: `t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA256 of "t.body">`."""
    digest = hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={time},v1={digest}"
