"""The film of an initial state through training, as one picture or animation."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.core.formatting import plural
from webapp.explorer.filmstrip import MAX_FRAMES, Chosen, choose, choose_film, drawn_film, film_key
from webapp.explorer.related import same_prompt
from webapp.pages.drawing_response import drawing_response
from webapp.pages.film_questions import do_ask_checkpoints, film_questions
from webapp.runs.actions import RequestRefused
from webapp.teams.access import require_writer, signed_in
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


@login_required
@require_POST
def film_ask(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask kept checkpoints to play the attempt's initial state again, for its film."""
    current = get_trajectory(request.user, slug)
    require_writer(request.user, current.run.team_id)
    try:
        count = do_ask_checkpoints(current, signed_in(request))
    except RequestRefused as refusal:
        messages.warning(request, str(refusal))
    else:
        messages.success(request, f"{plural(count, 'checkpoint')} will play this {current.run.task_noun}.")
    return redirect("prompt", slug)


@account_optional
@require_safe
@never_cache
def film_progress(request: HttpRequest, slug: str) -> HttpResponse:
    """Return how many checkpoints have yet to play; once none has, the page is loaded again."""
    current = get_trajectory(request.user, slug)
    questions = film_questions(request.user, current)
    if not questions.pending:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return render(request, "trajectories/_film_questions.html", {"trajectory": current, "film_questions": questions})


def _choose(request: HttpRequest, current: Trajectory, limit: int) -> Chosen:
    """The frames of the requested film. Raises Http404 if there are none."""
    iterations = same_prompt(current)
    if request.GET.get("until") == "success":
        chosen = choose(iterations, current, limit, until_success=True)
    else:
        chosen = choose_film(current, iterations, limit)
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
