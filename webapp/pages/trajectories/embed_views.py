"""Player for iframes: of a share link on other sites, of a trajectory in this site's reports; the oEmbed endpoint."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_exempt, xframe_options_sameorigin
from django.views.decorators.http import require_safe

from webapp.core.middleware.csp import FRAMED_POLICY, OWN_FRAME_POLICY
from webapp.pages.trajectory_page import player_context
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.positions import requested_position
from webapp.trajectories.serialize import player_data
from webapp.trajectories.sharing.embeds import find_link_by_address, oembed_response
from webapp.trajectories.sharing.public import shared_data
from webapp.trajectories.sharing.share_links import find_link, link_address, start_position, start_query
from webapp.trajectories.sharing.view_count import count_view

THEMES = ("light", "dark")
MISSING = "This share link does not exist or is no longer available."


@require_safe
@never_cache
@xframe_options_exempt
def embed(request: HttpRequest, token: str) -> HttpResponse:
    """Show only the player. `?turn=2&action=3` sets the position, `autoplay=1` starts it, `theme=dark` the theme."""
    link = find_link(token)
    if link is None:
        response = render(request, "trajectories/embed_gone.html", status=404)
    else:
        theme = request.GET.get("theme", "")
        address = link_address(request, link)
        start = start_query(start_position(link, request.GET))
        context = player_context(link.trajectory, shared_data(link.trajectory)) | {
            "start": start,
            "tokens_address": reverse("shared-tokens", args=[link.token]),
            "images_address": f"{reverse('shared', args=[link.token])}/images/",
            "address": address + start,
            "autoplay": request.GET.get("autoplay") == "1",
            "theme": theme if theme in THEMES else "",
        }
        response = render(request, "trajectories/embed.html", context)
        count_view(request, response, link, framed=True)
    response["Content-Security-Policy"] = FRAMED_POLICY
    response["Referrer-Policy"] = "no-referrer"
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response


@account_optional
@require_safe
@never_cache
@xframe_options_sameorigin
def trajectory_embed(request: HttpRequest, slug: str) -> HttpResponse:
    """Show only the player to users who may read the run; only pages of this site may frame it."""
    trajectory = get_trajectory(request.user, slug)
    start = start_query(requested_position(request.GET))
    context = player_context(trajectory, player_data(trajectory)) | {
        "start": start,
        "tokens_address": reverse("trajectory-tokens", args=[slug]),
        "address": reverse("trajectory", args=[slug]) + start,
        "autoplay": request.GET.get("autoplay") == "1",
        "theme": "",
    }
    response = render(request, "trajectories/embed.html", context)
    response["Content-Security-Policy"] = OWN_FRAME_POLICY
    return response


@require_safe
def oembed(request: HttpRequest) -> HttpResponse:
    """Return the oEmbed response for the share link `url`, as JSON; errors have the protocol's status codes."""
    address = request.GET.get("url", "")
    if not address:
        return _oembed_json({"error": "The parameter url is required: the URL of a share link."}, 400)
    if request.GET.get("format", "json") != "json":
        return _oembed_json({"error": "Only format=json is supported."}, 501)
    target = find_link_by_address(request, address)
    if target is None:
        return _oembed_json({"error": MISSING}, 404)
    try:
        return _oembed_json(oembed_response(request, *target, request.GET), 200)
    except ValueError as error:
        return _oembed_json({"error": str(error)}, 400)


def _oembed_json(answer: dict[str, object], status: int) -> JsonResponse:
    response = JsonResponse(answer, status=status)
    response["Access-Control-Allow-Origin"] = "*"
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response
