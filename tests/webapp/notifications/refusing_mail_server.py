"""A mail server that refuses everything, as Django's EMAIL_BACKEND."""

from __future__ import annotations

from smtplib import SMTPException


class Refusing:
    """Raises what a full mailbox causes."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def send_messages(self, messages: list[object]) -> int:
        raise SMTPException("mailbox full")
