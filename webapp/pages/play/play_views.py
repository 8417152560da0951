"""The page of one environment, and the game on it. Every action is a form's post: scripts only make it quicker."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

import envs
from envs.sandbox.client import EnvironmentFailure
from webapp.play import games, starts
from webapp.play.best_runs import best_of_each, best_runs, best_runs_from
from webapp.play.environment_info import Sample, sample
from webapp.play.keys import keys_of
from webapp.play.sessions import ActionRefused, Preparing
from webapp.play.starts import NoSuchStart, Start
from webapp.runs.launch import form

SEARCH = "search[keywords]"
"""The action of a page's search field: its words take the place of `keywords`."""


def _sample(name: str) -> Sample:
    if name not in envs.names():
        raise Http404("There is no environment of this name.")
    return sample(name)


def _start(request: HttpRequest, shown: Sample, query: str) -> Start:
    assert shown.spec is not None
    return starts.find(request.user, shown.spec, shown.name, query)


@login_required
@require_GET
def environments(request: HttpRequest) -> HttpResponse:
    """Every environment with a sample board, the best run in it, and the way to play it."""
    samples = [sample(name) for name in envs.names()]
    best = best_of_each(request.user, envs.names())
    context = {
        "page": "environments",
        "samples": [(shown, best.get(shown.name)) for shown in samples],
        "boards": {shown.name: shown.board for shown in samples if shown.board},
    }
    return render(request, "pages/environments.html", context)


@login_required
@require_GET
@never_cache
def environment(request: HttpRequest, name: str) -> HttpResponse:
    """Rules, settings, best runs, and a board to play on. `?prompt=`, `?seed=` or `?of=` name the state."""
    shown = _sample(name)
    context: dict[str, Any] = {
        "page": "environments",
        "sample": shown,
        "settings": form.environment_settings(name, {}, {}),
        "best": best_runs(request.user, name),
        "another": starts.random_query(),
        "address": request.get_full_path(),
    }
    if shown.spec is None:
        return render(request, "pages/environment.html", context, status=503)
    query = starts.wanted(request.GET) or games.newest_query(request.session, name) or "prompt=1"
    try:
        start = _start(request, shown, query)
    except NoSuchStart as problem:
        messages.warning(request, str(problem))
        return redirect("environment", name)
    context |= _game(request, start) | {"start": start}
    partial = request.headers.get("HX-Request")
    return render(request, "pages/_game.html" if partial else "pages/environment.html", context)


def _game(request: HttpRequest, start: Start, game: games.Game | None = None, said: str = "") -> dict[str, Any]:
    """What the template needs of the game; that it is being prepared, or why it cannot be played."""
    kept = games.kept_game(request.session, start)
    try:
        game = game or games.look(_person(request), start, kept, said)
    except Preparing:
        return {"preparing": True, "start": start}
    except EnvironmentFailure as failure:
        return {"failure": str(failure), "start": start}
    found = best_runs_from(request.user, start, game.first_board) if game.over else []
    return {"game": game, "start": start, "rivals": found, "keys": keys_of(game.names), "search": SEARCH}


@login_required
@require_POST
@never_cache
def play(request: HttpRequest, name: str) -> HttpResponse:
    """An action, a hint, or the same state once more. Answers with the game: a part of the page, or the way to it."""
    shown = _sample(name)
    if shown.spec is None:
        raise Http404("This environment cannot be shown.")
    try:
        start = _start(request, shown, starts.wanted(request.POST) or "prompt=1")
    except NoSuchStart as problem:
        messages.warning(request, str(problem))
        return redirect("environment", name)
    game, said = _obey(request, start)
    if request.headers.get("HX-Request"):
        context: dict[str, Any] = {"sample": shown, "another": starts.random_query()}
        return render(request, "pages/_game.html", context | _game(request, start, game, said))
    if said:
        messages.warning(request, said)
    return redirect(f"{reverse('environment', args=[name])}?{start.query}#game")


def _person(request: HttpRequest) -> int:
    assert request.user.pk is not None  # nobody gets here without having logged in
    return request.user.pk


def _obey(request: HttpRequest, start: Start) -> tuple[games.Game | None, str]:
    """Do what the form asks. The game afterwards where it is known, and what was wrong, in words."""
    kept = games.kept_game(request.session, start)
    person = _person(request)
    match request.POST.get("do", "act"):
        case "restart":
            games.keep_game(request.session, start, {"actions": [], "hints": 0, "hint_at": -1})
            return None, ""
        case "hint":
            at = len(kept["actions"])
            if kept.get("hint_at") != at:
                games.keep_game(request.session, start, kept | {"hint_at": at, "hints": kept.get("hints", 0) + 1})
            return None, ""
    if request.POST.get("at", "") not in ("", str(len(kept["actions"]))):
        return None, "This game went on in another window. Here it is as it stands now."
    text = _action(request)
    if not text:
        return None, "Nothing was entered: type an action."
    if len(text) > games.MAX_ACTION_LENGTH:
        return None, f"An action has at most {games.MAX_ACTION_LENGTH:,} characters; this one has {len(text):,}."
    try:
        game = games.act(person, start, kept, text)
    except ActionRefused as refusal:
        return None, str(refusal)
    except (Preparing, EnvironmentFailure):
        return None, ""  # the page tells of it when it looks
    games.keep_game(request.session, start, kept)
    return game, ""


def _action(request: HttpRequest) -> str:
    """The action of the button that was pressed or the text that was typed; a search with its words."""
    text = request.POST.get("action", "").strip()
    if text == SEARCH:
        words = " ".join(request.POST.get("words", "").split())
        return f"search[{words}]" if words else ""
    return text or request.POST.get("typed", "").strip()
