"""Related trajectories: the group and the same prompt at other iterations, and a diff of two trajectories."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.core.streaming import release_connection
from webapp.explorer.breaks import breaks, turn_boards
from webapp.explorer.filmstrip import MAX_ALL, MAX_FRAMES, Chosen, choose_film
from webapp.explorer.related import same_group, same_prompt
from webapp.pages.film_panel import film_panel, film_picture
from webapp.pages.film_questions import film_questions
from webapp.pages.play_cards import PlayCard
from webapp.runs.models import Run
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.board_text import board_text
from webapp.trajectories.branch_origin import branch_origin, place_text
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import player_data, turn_events
from webapp.trajectories.sharing.public import training_point
from webapp.trajectories.text_diff import compare_turns

MAX_BOARDS = 40
"""Maximum number of turns of a comparison, and of members of a group, with boards."""
NO_BOARDS = (None, None)


@account_optional
@require_GET
@never_cache
def prompt(request: HttpRequest, slug: str) -> HttpResponse:
    """Show all trajectories of the run from this initial state: the group, and other iterations.

    The film shows up to 12 iterations; `?all=1` shows up to 100. A branch leads to the page of the recorded attempt.
    """
    current = get_trajectory(request.user, slug)
    if origin := branch_origin(current):
        return redirect("prompt", origin.recorded.slug)
    again = same_prompt(current)
    board = _first_board(current)
    members = same_group(current)
    context: dict[str, Any] = {
        "page": "runs",
        "trajectory": current,
        "group": current.group,
        "run": current.run,
        "place": place_text(current),
        "board": board,
        "board_text": board_text(board),
        "shown": board["kind"] != "text" or bool(board["text"].strip()),
        "members": members,
        "breaks": breaks([member.played.trajectory for member in members[:MAX_BOARDS]]),
        "again": again,
    }
    every = request.GET.get("all") == "1"
    chosen = choose_film(current, again, MAX_ALL if every else MAX_FRAMES)
    if len(chosen.frames) > 1:
        context |= film_panel(chosen, current) | {"every": every}
        if current.run.visibility == Run.Visibility.LINK:
            context["meta"] = _meta(request, current, chosen)
    if len(again) == 1:
        context["film_questions"] = film_questions(request.user, current)
    return render(request, "trajectories/prompt.html", context)


def _first_board(trajectory: Trajectory) -> dict[str, Any]:
    """Return the initial state; for another trainer's run without a board, the first turn's state as text."""
    board: dict[str, Any] = trajectory.group.board
    if trajectory.run.recorded is None or board["kind"] != "text" or board["text"].strip():
        return board
    first = trajectory.turns.filter(number=0).values_list("event__state", flat=True).first()
    return {"kind": "text", "text": first or ""}


def _meta(request: HttpRequest, current: Trajectory, chosen: Chosen) -> dict[str, str]:
    """Metadata for previews of the page's link, for runs that anyone may read."""
    return {
        "title": f"{chosen.title}: {current.group.environment}",
        "description": f"{chosen.facts}. A language model learns by reinforcement learning; watch its attempts.",
        "url": request.build_absolute_uri(reverse("prompt", args=[current.slug])),
        "picture": film_picture(request, current, chosen),
    }


@account_optional
@require_GET
@never_cache
def thoughts(request: HttpRequest, slug: str, other: str) -> HttpResponse:
    """Show the differences of two trajectories, turn by turn; `?view=inline` merges both into one text."""
    left, right = (get_trajectory(request.user, name) for name in (slug, other))
    left_events, right_events = turn_events(left), turn_events(right)
    context = {
        "page": "runs",
        "run": left.run,
        "trajectory": left,
        "plays": [
            _play_card(number, side, events, left.run_id)
            for number, (side, events) in enumerate([(left, left_events), (right, right_events)], start=1)
        ],
        "same_start": left.group.board == right.group.board,
        "inline": request.GET.get("view") == "inline",
    }
    release_connection()  # others need it during the comparison
    context["play_data"] = [card.data for card in context["plays"] if card.data["turns"]]
    turns = compare_turns(left_events, right_events)
    boards = zip_longest(turn_boards(left, left_events, MAX_BOARDS), turn_boards(right, right_events, MAX_BOARDS))
    left_out = max(left.turn_count, right.turn_count) - len(turns)
    context |= {
        "turns": [(turn, *pair) for turn, pair in zip_longest(turns, list(boards)[: len(turns)], fillvalue=NO_BOARDS)],
        "left_out": left_out,
        "first": next((turn.number for turn in turns if not turn.same), None),
    }
    return render(request, "trajectories/thoughts.html", context)


def _play_card(number: int, trajectory: Trajectory, events: list[dict[str, Any]], run: int) -> PlayCard:
    """Return a side of the comparison; `run` is the run that the page belongs to."""
    place = place_text(trajectory)
    if trajectory.run_id != run:
        place = f"{place} of {trajectory.run.title}"
    return PlayCard(
        label=f"The {'first' if number == 1 else 'second'}: {place}",
        title=place,
        number=number,
        trajectory=trajectory,
        data=player_data(trajectory, events),
        played=training_point(trajectory),
    )
