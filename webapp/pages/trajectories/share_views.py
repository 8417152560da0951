"""Share links: creation, revocation, and the player without an account."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.explorer.found import found_query
from webapp.pages.trajectory_page import NO_FORMS, gone, player_context, private
from webapp.play.challenge import start_of_challenge
from webapp.teams.access import require_writer, signed_in
from webapp.teams.undo_notice import offer_undo
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.actions import do_revoke_share, do_share_trajectory
from webapp.trajectories.models import ShareLink
from webapp.trajectories.positions import key_position, position_at, positions
from webapp.trajectories.sharing.embeds import embed_code
from webapp.trajectories.sharing.public import comment_on, preview_title, shared_data, training_point
from webapp.trajectories.sharing.share_links import ShareForm, find_link, link_address, start_position, start_query
from webapp.trajectories.sharing.view_count import count_view


@login_required
@require_POST
def share(request: HttpRequest, slug: str) -> HttpResponse:
    """Create a share link."""
    trajectory = get_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    form = ShareForm({"ends": "never"} | request.POST.dict())
    if not form.is_valid():
        messages.error(request, f"No link was created. {form.problem()}")
        return redirect(_page(request, slug))
    turn, action = form.position()
    do_share_trajectory(
        trajectory,
        request.user,  # type: ignore[arg-type]
        form.expires_at(timezone.now()),
        turn=turn,
        action=action,
        indexable=form.cleaned_data["indexable"],
    )
    messages.success(request, "Link created. Anyone with the link can watch this attempt without an account.")
    position = start_query(None if turn is None else (turn, -1 if action is None else action))
    return redirect(_page(request, slug, position))


@login_required
@require_POST
def revoke(request: HttpRequest, slug: str, token: str) -> HttpResponse:
    """Revoke a share link."""
    trajectory = get_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    link = ShareLink.objects.filter(trajectory=trajectory, token=token).first()
    if link is None:
        raise Http404("This link does not exist.")
    offer_undo(request, "Revoked. The link no longer works.", do_revoke_share(link, signed_in(request)))
    return redirect(_page(request, slug))


def _page(request: HttpRequest, slug: str, position: str = "") -> str:
    """Return the address of the player's share panel, with the position and the explorer's filters."""
    explorer_query = request.POST.get("found", "")
    kept = f"{'&' if position else '?'}{found_query(explorer_query)}" if explorer_query else ""
    return f"{reverse('trajectory', args=[slug])}{position}{kept}#share"


@require_safe
@never_cache
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """Show the player without an account."""
    link = find_link(token)
    if link is None:
        return gone(request)
    data = shared_data(link.trajectory)
    start = start_position(link, request.GET)
    address = link_address(request, link)
    context = (
        player_context(link.trajectory, data)
        | NO_FORMS
        | {
            "link": link,
            "playable": start_of_challenge(link.trajectory) is not None,
            "when": training_point(link.trajectory),
            "address": address,
            "tokens_address": reverse("shared-tokens", args=[link.token]),
            "images_address": f"{reverse('shared', args=[link.token])}/images/",
            "start": start_query(start),
            "embed_code": embed_code(request, link, link.trajectory.group.environment, ""),
            "meta": meta(request, link, data, start),
        }
    )
    response = private(render(request, "trajectories/shared.html", context), link)
    count_view(request, response, link)
    return response


def meta(request: HttpRequest, link: ShareLink, data: dict[str, Any], start: tuple[int, int] | None) -> dict[str, str]:
    """Metadata for previews of the link: the comment on the attempt, and the picture of the same position."""
    position = position_at(positions(data), *(start or key_position(data)))
    comment = comment_on(link.trajectory)
    address = link_address(request, link)
    query = start_query(start)
    picture = request.build_absolute_uri(reverse("shared-picture", args=[link.token]))
    oembed = urlencode({"url": address + query, "format": "json"})
    shown = "response" if data.get("recorded") else "thought"
    return {
        "title": preview_title(link.trajectory),
        "description": comment,
        "url": address + query,
        "picture": f"{picture}{query}{'&' if query else '?'}v={link.trajectory.last_seq}",
        "alt": f"The board at turn {position.turn + 1} next to the {shown} of that turn. {comment}",
        "oembed": f"{request.build_absolute_uri(reverse('oembed'))}?{oembed}",
    }
