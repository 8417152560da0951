"""Related trajectories: the group and the same prompt at other iterations, and a diff of two trajectories."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.core import formatting
from webapp.explorer.related import same_group, same_prompt
from webapp.explorer.rows import outcome
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.board_text import board_text
from webapp.trajectories.models import Trajectory
from webapp.trajectories.text_diff import compare_turns


@account_optional
@require_GET
@never_cache
def prompt(request: HttpRequest, slug: str) -> HttpResponse:
    """All trajectories of the run from this initial state: the group, and other iterations."""
    current = get_trajectory(request.user, slug)
    context = {
        "page": "runs",
        "trajectory": current,
        "group": current.group,
        "run": current.run,
        "place": formatting.place(current.group.number, current.member),
        "board_text": board_text(current.group.board),
        "members": same_group(current),
        "again": same_prompt(current),
    }
    return render(request, "trajectories/prompt.html", context)


@account_optional
@require_GET
@never_cache
def thoughts(request: HttpRequest, slug: str, other: str) -> HttpResponse:
    """Diff of two trajectories, turn by turn; `?view=inline` merges both into one text."""
    left, right = (get_trajectory(request.user, name) for name in (slug, other))
    turns = compare_turns(*(_events(found) for found in (left, right)))
    context = {
        "page": "runs",
        "run": left.run,
        "trajectory": left,
        "sides": [
            (found, outcome(found), formatting.place(found.group.number, found.member)) for found in (left, right)
        ],
        "turns": turns,
        "first": next((turn.number for turn in turns if not turn.same), None),
        "same_start": left.group.board == right.group.board,
        "inline": request.GET.get("view") == "inline",
    }
    return render(request, "trajectories/thoughts.html", context)


def _events(trajectory: Trajectory) -> list[dict[str, object]]:
    return list(trajectory.turns.order_by("number").values_list("event", flat=True))
