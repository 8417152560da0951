"""Whether mail leaves this site, and where its pages are reached from outside. Sending is Django's."""

from __future__ import annotations

from django.conf import settings


def mail_is_configured() -> bool:
    """False where mails would only be written to the log."""
    return bool(settings.ECHOSCOPE_MAIL)


def absolute(path: str) -> str:
    """The address under which people outside reach a page."""
    return f"{settings.ECHOSCOPE_URL.rstrip('/')}{path}"
