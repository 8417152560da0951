"""The recorded Echo Trap: a public page, and a version for iframes; and recorded runs of a real model."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_POST, require_safe

from webapp.core.middleware.csp import FRAMED_POLICY
from webapp.explorer.trap_replay import trap_replay
from webapp.ingest.recorded_runs import BROKEN, RECORDINGS, do_open_recording
from webapp.teams.access import require_writable_teams, signed_in

SECONDS = 60
"""Duration of the whole recording when it is played."""
EMBED_SIZE = (960, 760)


@require_safe
def echo_trap(request: HttpRequest) -> HttpResponse:
    """Show the page. `?iteration=143` opens the recording there, paused."""
    embed = request.build_absolute_uri(reverse("embed-echo-trap"))
    width, height = EMBED_SIZE
    meta = {
        "title": "The Echo Trap, recorded",
        "description": "Two training runs from the same start: StarPO ends in one repeated choice, StarPO-S learns.",
        "url": request.build_absolute_uri(reverse("echo-trap")),
    }
    context = {
        "embed_code": f'<iframe src="{embed}" width="{width}" height="{height}" title="Echoscope: the Echo Trap" '
        'frameborder="0" loading="lazy"></iframe>',
        "meta": meta,
        "autoplay": "iteration" not in request.GET,
        "recordings": RECORDINGS,
        "broken": BROKEN,
    }
    return render(request, "echo_trap/page.html", _recording(request) | context)


@require_safe
@xframe_options_exempt
def embed_echo_trap(request: HttpRequest) -> HttpResponse:
    """Show only the recording. `?autoplay=1` starts it, `iteration=143` opens it there, `theme=dark` sets the theme."""
    theme = request.GET.get("theme", "")
    context = {
        "theme": theme if theme in ("light", "dark") else "",
        "autoplay": request.GET.get("autoplay") == "1",
    }
    response = render(request, "echo_trap/embed.html", _recording(request) | context)
    response["Content-Security-Policy"] = FRAMED_POLICY
    response["Referrer-Policy"] = "no-referrer"
    return response


@login_required
@require_POST
def open_recording(request: HttpRequest, name: str) -> HttpResponse:
    """Import a recorded run into the user's team, once, and open it."""
    recording = next((recording for recording in (*RECORDINGS, *BROKEN) if recording.name == name), None)
    if recording is None:
        raise Http404("There is no such recording.")
    team = require_writable_teams(request.user)[0]
    return redirect("run", do_open_recording(team, signed_in(request), recording).slug)


def _recording(request: HttpRequest) -> dict[str, Any]:
    replay = trap_replay()
    iteration = request.GET.get("iteration", "")
    known = iteration.isdecimal() and len(iteration) < 6
    return {
        "page": "echo-trap",
        "replay": replay,
        "runs": list(zip(replay.runs, replay.echoes, strict=True)),
        "seconds": SECONDS,
        "start": min(max(1, int(iteration)), replay.length) if known else 1,
    }
