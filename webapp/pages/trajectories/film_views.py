"""The film of an initial state through training, as one picture or animation."""

from __future__ import annotations

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from webapp.explorer.filmstrip import MAX_FRAMES, Chosen, choose, drawn_film, film_key
from webapp.explorer.related import same_prompt
from webapp.pages.drawing_response import drawing_response
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.models import Trajectory
from webapp.trajectories.render.film import CONTENT_TYPES, PREVIEW_FRAMES, Film, draw_film, draw_film_preview


@account_optional
@require_safe
def film_preview(request: HttpRequest, slug: str) -> HttpResponse:
    """Send the preview of the page's link in chats and social networks: up to four iterations, 1200 by 630 pixels."""
    current = get_trajectory(request.user, slug)
    chosen = _choose(request, current, PREVIEW_FRAMES)
    return _drawn(request, current, chosen, "preview", "image/png", draw_film_preview)


@account_optional
@require_safe
def film(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    """PNG, WebP or GIF for readers of the run: the initial state of the trajectory at up to 12 iterations.

    `?until=success` ends with the trajectory, the first success from its initial state.
    """
    current = get_trajectory(request.user, slug)
    if kind not in CONTENT_TYPES:
        raise Http404(f"Unknown format of a film. Available: {', '.join(CONTENT_TYPES)}.")
    chosen = _choose(request, current, MAX_FRAMES)
    response = _drawn(request, current, chosen, kind, CONTENT_TYPES[kind], lambda drawn: draw_film(drawn, kind))
    if response.status_code != 200:
        return response
    name = f"how-it-learned-{current.group.environment}-{slug}.{kind}".lower()
    response["Content-Disposition"] = content_disposition_header(False, name) or "inline"
    return response


def _choose(request: HttpRequest, current: Trajectory, limit: int) -> Chosen:
    """The frames of the requested film. Raises Http404 if there are none."""
    chosen = choose(same_prompt(current), current, limit, until_success=request.GET.get("until") == "success")
    if not chosen.frames:
        raise Http404("No attempt from this initial state has ended yet. Try again later.")
    return chosen


def _drawn(
    request: HttpRequest,
    current: Trajectory,
    chosen: Chosen,
    kind: str,
    content_type: str,
    draw: Callable[[Film], bytes],
) -> HttpResponse:
    """Return the drawing of the chosen frames, or the status 304 or 503."""
    key, environment = film_key(chosen, kind), current.group.environment
    return drawing_response(request, key, content_type, lambda: drawn_film(chosen, environment, kind, draw))
