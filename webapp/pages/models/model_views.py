"""Downloads and deletions of models from the launch form and the workers page, and the first run with a real model."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from trainer.config.files import load_preset
from webapp.core.quotas import QuotaExceeded
from webapp.runs.actions import RequestRefused
from webapp.runs.launch.planning import LaunchRequest, do_launch, plan_launch
from webapp.runs.model_cards import cards
from webapp.runs.model_cards.real_model import LAUNCH_KEY, REAL_MODEL_PRESET
from webapp.runs.models import Run
from webapp.runs.stored_models import model_requests
from webapp.runs.stored_models.model_requests import UnknownModel
from webapp.teams.access import require_writable_teams, signed_in


@login_required
@require_GET
@never_cache
def model_status(request: HttpRequest) -> HttpResponse:
    """Show the states of all models in the folders of live workers, which an open launch form swaps into its cards."""
    return _statuses(request)


@login_required
@require_POST
def model_download(request: HttpRequest, name: str) -> HttpResponse:
    """Queue the download of a model. `worker` chooses the folder."""
    worker = request.POST.get("worker", "")
    return _answer(
        request,
        name,
        lambda: model_requests.do_request_download(signed_in(request), name, worker),
        "The download has been requested.",
    )


@login_required
@require_POST
def model_cancel(request: HttpRequest, name: str) -> HttpResponse:
    """Cancel a download, or forget a failed one. `store` names the folder."""
    store = request.POST.get("store", "")
    return _answer(
        request,
        name,
        lambda: model_requests.do_cancel_download(signed_in(request), name, store),
        "The download is being cancelled.",
    )


@login_required
@require_POST
def model_delete(request: HttpRequest, name: str) -> HttpResponse:
    """Delete an installed model. `store` names the folder."""
    store = request.POST.get("store", "")
    return _answer(
        request,
        name,
        lambda: model_requests.do_delete_model(signed_in(request), name, store),
        f"The model {name} is being deleted.",
    )


@login_required
@require_POST
def train_real_model(request: HttpRequest) -> HttpResponse:
    """Download the small model of a preset if needed, launch the preset once, and open the run.

    A user who has launched it before gets the existing run.
    """
    teams, user = require_writable_teams(request.user), signed_in(request)
    run = Run.objects.filter(author=user, launch_key=LAUNCH_KEY).first()
    requested = LaunchRequest(user, teams[0], load_preset(REAL_MODEL_PRESET), REAL_MODEL_PRESET, key=LAUNCH_KEY)
    try:
        launched, *_ = do_launch(plan_launch(requested, Run.objects.listed_for(user)))
    except (RequestRefused, QuotaExceeded) as refusal:
        messages.warning(request, f"Nothing was launched. {refusal}")
        return redirect("runs")
    if run is None:
        messages.success(request, "Run launched. It starts when its model is there and a worker is free.")
    else:
        messages.info(request, "This is the run that you launched before. Clone it to train again.")
    return redirect("run", launched.slug)


def _answer(request: HttpRequest, name: str, change: Callable[[], object], done: str) -> HttpResponse:
    """Make the change; return the refreshed states to scripts of a page, or a redirect with a message."""
    try:
        change()
        problem = ""
    except UnknownModel as error:
        raise Http404(str(error)) from None
    except (RequestRefused, QuotaExceeded) as refusal:
        problem = str(refusal)
    if request.headers.get("HX-Request"):
        return _statuses(request, {name: problem} if problem else {})
    if problem:
        messages.warning(request, problem)
    else:
        messages.success(request, done)
    then = request.POST.get("next", "")
    if then.startswith("/") and url_has_allowed_host_and_scheme(then, allowed_hosts=None):
        return redirect(then)
    return redirect("workers")


def _statuses(request: HttpRequest, problems: dict[str, str] | None = None) -> HttpResponse:
    model_cards = cards.status_cards(signed_in(request))
    context = {"model_cards": model_cards, "problems": problems or {}, "swap": True}
    context["polling"] = cards.polling(model_cards)
    return render(request, "runs/_model_statuses.html", context)
