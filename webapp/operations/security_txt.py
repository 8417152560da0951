"""`/.well-known/security.txt` (RFC 9116): the contact for reports of vulnerabilities of this site."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

PATH = "/.well-known/security.txt"
VALID_FOR = timedelta(days=180)


@require_safe
def security_txt(request: HttpRequest) -> HttpResponse:
    """Return the file with the operator's contact; 404 unless ECHOSCOPE_SECURITY_CONTACT is set."""
    contact: str = settings.ECHOSCOPE_SECURITY_CONTACT
    if not contact:
        raise Http404("The operator of this site named no contact for vulnerabilities.")
    if ":" not in contact:
        contact = f"mailto:{contact}"
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    lines = [
        f"Contact: {contact}",
        f"Expires: {(midnight + VALID_FOR).isoformat()}",
        f"Canonical: {settings.ECHOSCOPE_URL.rstrip('/')}{PATH}",
        "Preferred-Languages: en",
    ]
    return HttpResponse("".join(f"{line}\n" for line in lines), content_type="text/plain; charset=utf-8")
