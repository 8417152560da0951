"""Mail configuration, and absolute URLs of the site's pages."""

from __future__ import annotations

from django.conf import settings


def mail_is_configured() -> bool:
    """Return True with ECHOSCOPE_EMAIL_URL; without it no mail is sent."""
    return bool(settings.ECHOSCOPE_MAIL)


def absolute(path: str) -> str:
    """Return the absolute URL of a page, as reached from outside."""
    return f"{settings.ECHOSCOPE_URL.rstrip('/')}{path}"
