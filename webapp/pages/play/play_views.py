"""Pages of environments, and the game on them. Every action is a form POST; JavaScript is optional."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from pydantic import ValidationError

import envs
from envs.adapters.packages import no_such_variant
from envs.sandbox.client import EnvironmentFailure
from trainer.config.files import validation_errors
from webapp.play import games, starts
from webapp.play.best_runs import best_of_each, best_runs, best_runs_from
from webapp.play.challenge import agents_way, ghost, is_same_puzzle, judge_duel
from webapp.play.environment_info import EnvironmentSample, sample
from webapp.play.keys import make_keys
from webapp.play.sessions import ActionRefused, Preparing
from webapp.play.starts import NoSuchStart, Start
from webapp.runs.launch import fields
from webapp.trajectories.models import Trajectory

MAX_VARIANT_LENGTH = 100
SEARCH = "search[keywords]"
"""Action of a page's search field, in which the typed text replaces `keywords`."""


class NoSuchVariant(ValueError):
    """The address names a variant that the adapter does not have or cannot play. The message gives the reason."""


def _sample(request: HttpRequest, name: str, query: QueryDict) -> EnvironmentSample:
    """Return the environment, in the variant of a query. Raises NoSuchVariant, or Http404 for an unknown name."""
    if name not in envs.names():
        raise Http404(envs.missing_adapters().get(name, "This environment does not exist."))
    if not envs.variants(name):
        return sample(name)
    kind, _, value = starts.requested_start(query).partition("=")
    variant = (
        starts.find_variant(request.user, name, value) if kind == "of" else query.get("id", "")[:MAX_VARIANT_LENGTH]
    )
    if variant and envs.needs_variant(name) and variant not in (variants := envs.variants(name)):
        raise NoSuchVariant(no_such_variant(name, variant, variants))  # perhaps a server that the operator did not list
    if variant:
        try:
            envs.spec(name, {"id": variant})
        except ValidationError as error:
            raise NoSuchVariant("; ".join(text for _, text in validation_errors(error))) from None
    return sample(name, variant)


def _start(request: HttpRequest, sample: EnvironmentSample, query: str) -> Start:
    assert sample.spec is not None
    return starts.find(request.user, sample.spec, sample.name, query, sample.variant)


def _page_address(sample: EnvironmentSample) -> str:
    """Return the address of the environment's page, in its variant."""
    page = reverse("environment", args=[sample.name])
    return f"{page}?{urlencode({'id': sample.variant})}" if sample.variant else page


@login_required
@require_GET
def environments(request: HttpRequest) -> HttpResponse:
    """Show all environments with a sample board, the best run and a link to play."""
    samples = [sample(name) for name in envs.names()]
    best = best_of_each(request.user, envs.names())
    context = {
        "page": "environments",
        "samples": [(entry, best.get(entry.name)) for entry in samples],
        "boards": {entry.name: entry.board for entry in samples if entry.board},
        "missing": envs.missing_adapters(),
    }
    return render(request, "pages/environments.html", context)


@login_required
@require_GET
@never_cache
def environment(request: HttpRequest, name: str) -> HttpResponse:
    """Show rules, settings, best runs, and a board to play on.

    `?prompt=`, `?seed=` or `?of=` selects the state, `?id=` the variant of an adapter.
    """
    query = request.GET
    if not starts.requested_start(query):
        newest = games.newest_query(request.session, name, query.get("id", ""))
        query = QueryDict(newest) if newest else query
    try:
        sample = _sample(request, name, query)
    except NoSuchVariant as problem:
        messages.warning(request, str(problem))
        if query is request.GET:
            return redirect("environments")
        query = QueryDict()  # a saved game in a variant of another version
        sample = _sample(request, name, query)
    context: dict[str, Any] = {
        "page": "environments",
        "sample": sample,
        "settings": fields.environment_settings(name, {}, {}),
        "best": best_runs(request.user, name, sample.variant),
        "another": starts.random_query(sample.variant),
        "address": request.get_full_path(),
    }
    if sample.spec is None:
        return render(request, "pages/environment.html", context, status=200 if sample.choice else 503)
    try:
        start = _start(request, sample, starts.requested_start(query) or "prompt=1")
    except NoSuchStart as problem:
        messages.warning(request, str(problem))
        return redirect(_page_address(sample))
    context |= _game(request, start) | {"start": start}
    partial = request.headers.get("HX-Request")
    return render(request, "pages/_game.html" if partial else "pages/environment.html", context)


def _game(request: HttpRequest, start: Start, game: games.Game | None = None, message: str = "") -> dict[str, Any]:
    """Return the context of the game; `preparing` or `failure` if it cannot be played now."""
    saved = games.saved_game(request.session, start)
    try:
        game = game or games.resume(_user_id(request), start, saved, message)
    except Preparing:
        return {"preparing": True, "start": start}
    except EnvironmentFailure as failure:
        return {"failure": str(failure), "start": start}
    best = best_runs_from(request.user, start, game.first_board) if game.over else []
    context = {"game": game, "start": start, "rivals": best, "keys": make_keys(game.names), "search": SEARCH}
    return context | _against_the_agent(start, game)


def _against_the_agent(start: Start, game: games.Game) -> dict[str, Any]:
    """Return the data of the board with the way of the agent of the attempt, and who did better. Two queries.

    A branch that is still being played goes as far as it has got.
    """
    attempts = Trajectory.with_branches.select_related("group", "run").filter(slug=start.of) if start.of else []
    for attempt in attempts:
        if is_same_puzzle(game, attempt):
            way = ghost(agents_way(attempt), game.taken)
            return {"play_data": game.data | {"ghost": way}, "duel": judge_duel(game, attempt)}
    return {"play_data": game.data}


@login_required
@require_POST
@never_cache
def play(request: HttpRequest, name: str) -> HttpResponse:
    """Play an action, show a hint or restart. Returns the game as a partial, or a redirect to it."""
    try:
        sample = _sample(request, name, request.POST)
    except NoSuchVariant as problem:
        raise Http404(str(problem)) from None
    if sample.spec is None:
        raise Http404("This environment cannot be shown.")
    try:
        start = _start(request, sample, starts.requested_start(request.POST) or "prompt=1")
    except NoSuchStart as problem:
        messages.warning(request, str(problem))
        return redirect(_page_address(sample))
    game, message = _apply(request, start)
    if request.headers.get("HX-Request"):
        context: dict[str, Any] = {"sample": sample, "another": starts.random_query(sample.variant)}
        return render(request, "pages/_game.html", context | _game(request, start, game, message))
    if message:
        messages.warning(request, message)
    return redirect(f"{reverse('environment', args=[name])}?{start.query}#game")


def _user_id(request: HttpRequest) -> int:
    assert request.user.pk is not None  # login_required
    return request.user.pk


def _apply(request: HttpRequest, start: Start) -> tuple[games.Game | None, str]:
    """Apply the posted form. Returns the game if it is available, and an error message."""
    saved = games.saved_game(request.session, start)
    person = _user_id(request)
    match request.POST.get("do", "act"):
        case "restart":
            games.save_game(request.session, start, {"actions": [], "hints": 0, "hint_at": -1})
            return None, ""
        case "hint":
            at = len(saved["actions"])
            if saved.get("hint_at") != at:
                games.save_game(request.session, start, saved | {"hint_at": at, "hints": saved.get("hints", 0) + 1})
            return None, ""
    if request.POST.get("at", "") not in ("", str(len(saved["actions"]))):
        return None, "This game continued in another window. This is its current state."
    text = _action(request)
    if not text:
        return None, "Enter an action."
    if len(text) > games.MAX_ACTION_LENGTH:
        return None, f"An action has at most {games.MAX_ACTION_LENGTH:,} characters; this one has {len(text):,}."
    try:
        game = games.act(person, start, saved, text)
    except ActionRefused as refusal:
        return None, str(refusal)
    except (Preparing, EnvironmentFailure):
        return None, ""  # the page reports it when it loads the game
    games.save_game(request.session, start, saved)
    return game, ""


def _action(request: HttpRequest) -> str:
    """Return the action of the pressed button or the typed text; a search with its keywords."""
    text = request.POST.get("action", "").strip()
    if text == SEARCH:
        words = " ".join(request.POST.get("words", "").split())
        return f"search[{words}]" if words else ""
    return text or request.POST.get("typed", "").replace("\r\n", "\n").strip()
