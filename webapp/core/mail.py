"""Whether mail is sent, and absolute URLs of the site's pages."""

from __future__ import annotations

from django.conf import settings


def mail_is_configured() -> bool:
    """False if mails are only written to the log."""
    return bool(settings.ECHOSCOPE_MAIL)


def absolute(path: str) -> str:
    """Absolute URL of a page, as reached from outside."""
    return f"{settings.ECHOSCOPE_URL.rstrip('/')}{path}"
