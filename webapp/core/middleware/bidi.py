"""Shows bidirectional controls in user texts, such as U+202E, which would reorder the page around them.

Pages show each control as its number, "[U+202E]"; stored texts and form values remain unchanged. The scripts do the
same with texts that they add (`visibleText` of static/js/ui/dom.js).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_ENCODED = re.compile(rb"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
_KEPT = re.compile(r"(<textarea\b.*?</textarea\s*>|<script\b.*?</script\s*>|<[^>]*>)", re.DOTALL | re.IGNORECASE)
"""Parts of a document that are no visible text, or are sent back by a form."""

View = Callable[[HttpRequest], HttpResponseBase]


def visible_controls(get_response: View) -> View:
    """Show bidirectional controls in the text of HTML responses; a middleware."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if (
            isinstance(response, HttpResponse)
            and response.headers.get("Content-Type", "").startswith("text/html")
            and _ENCODED.search(response.content)
        ):
            response.content = with_visible_controls(response.content.decode())
        return response

    return answer


def with_visible_controls(document: str) -> str:
    """Return the HTML with its bidirectional controls as numbers, except in tags, scripts and text fields."""
    parts = _KEPT.split(document)
    parts[::2] = [_CONTROLS.sub(lambda control: f"[U+{ord(control[0]):04X}]", text) for text in parts[::2]]
    return "".join(parts)
