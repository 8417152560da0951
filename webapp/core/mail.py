"""Whether mail is sent, and absolute URLs of the site's pages."""

from __future__ import annotations

from django.conf import settings


def mail_is_configured() -> bool:
    """False without ECHOSCOPE_EMAIL_URL: then no mail is sent."""
    return bool(settings.ECHOSCOPE_MAIL)


def absolute(path: str) -> str:
    """Absolute URL of a page, as reached from outside."""
    return f"{settings.ECHOSCOPE_URL.rstrip('/')}{path}"
