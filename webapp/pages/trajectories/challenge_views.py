"""“Beat the agent” behind a share link: the puzzle of the attempt, played without an account."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from envs.sandbox.client import EnvironmentFailure
from webapp.core.token_buckets import TokenBucket, take
from webapp.pages.trajectory_page import NO_FORMS, gone, private
from webapp.play import games
from webapp.play.challenge import agents_way, ghost, is_same_puzzle, judge_duel, start_of_challenge
from webapp.play.keys import make_keys
from webapp.play.sessions import ActionRefused, Preparing
from webapp.play.starts import Start
from webapp.teams.client_address import client_address
from webapp.trajectories.models import ShareLink
from webapp.trajectories.sharing.public import training_point
from webapp.trajectories.sharing.share_links import find_link, link_address

PER_VISITOR, PER_SITE = 120, 1200
"""Actions a minute."""
NOT_PLAYABLE = "This puzzle cannot be played here. Watch the agent's attempt instead."


@require_safe
@never_cache
def challenge(request: HttpRequest, token: str) -> HttpResponse:
    """Show the puzzle after the actions of the query: each `move`, and the `action` whose button was pressed."""
    link = find_link(token)
    if link is None:
        return gone(request)
    start = start_of_challenge(link.trajectory)
    if start is None:
        raise Http404(NOT_PLAYABLE)
    address = client_address(request)
    budget = (TokenBucket(f"challenge:{address}", PER_VISITOR), TokenBucket("challenge", PER_SITE))
    if take(settings.REDIS_URL, budget).wait:
        return private(render(request, "429.html", NO_FORMS, status=429), link)
    context = _game(request, link, start, address)
    template = (
        "trajectories/_challenge_game.html" if request.headers.get("HX-Request") else "trajectories/challenge.html"
    )
    response = private(render(request, template, NO_FORMS | context), link)
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def _game(request: HttpRequest, link: ShareLink, start: Start, address: str) -> dict[str, Any]:
    """Return the context of the game, with `preparing` or `failure` if it cannot be played now. Raises Http404."""
    trajectory = link.trajectory
    moves = [move[: games.MAX_ACTION_LENGTH] for move in request.GET.getlist("move")][: start.budget]
    pressed = request.GET.get("action", "")[: games.MAX_ACTION_LENGTH]
    page = reverse("challenge", args=[link.token])
    context = {
        "link": link,
        "group": trajectory.group,
        "run": trajectory.run,
        "when": training_point(trajectory),
        "start": start,
        "page_address": page,
        "here": f"{page}?{urlencode({'move': moves}, doseq=True)}" if moves else page,
        "meta": _meta(request, link, start),
    }
    message = ""
    try:
        try:
            game = games.replay(address, start, [*moves, pressed] if pressed else moves)
        except ActionRefused as refusal:
            message = str(refusal)
            game = games.replay(address, start, moves)
    except ActionRefused:
        raise Http404("The address has an action that this puzzle does not have. Start again.") from None
    except Preparing:
        return context | {"preparing": True}
    except EnvironmentFailure as failure:
        return context | {"failure": str(failure)}
    if not is_same_puzzle(game, trajectory):
        raise Http404(NOT_PLAYABLE)
    taken = [move.text for move in game.moves]
    return context | {
        "game": game,
        "message": message,
        "keys": make_keys(game.names),
        "taken": taken,
        "duel": judge_duel(game, trajectory),
        "your_address": request.build_absolute_uri(f"{page}?{urlencode({'move': taken}, doseq=True)}"),
        "play_data": game.data | {"ghost": ghost(agents_way(trajectory), game.taken)},
    }


def _meta(request: HttpRequest, link: ShareLink, start: Start) -> dict[str, str]:
    """Return the metadata for previews of the link, with the picture of the initial state."""
    picture = request.build_absolute_uri(reverse("shared-picture", args=[link.token]))
    return {
        "title": f"Can you beat the agent at {start.environment}?",
        "description": f"The same puzzle with the same budget, {start.budget} actions. Play it without an account.",
        "url": f"{link_address(request, link)}/play",
        "picture": f"{picture}?turn=1&v={link.trajectory.last_seq}",
    }
