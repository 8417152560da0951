"""Questions to policies about an attempt: the panel with the answers, asking, cancelling and deleting."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from pydantic import ValidationError

from trainer.journal.branches import Change
from webapp.branching.actions import do_ask, do_delete_question, require_usable
from webapp.branching.asked import Asked, AskedWrongly
from webapp.branching.models import BranchQuestion
from webapp.pages.branch_form import asked_before, read_asked, read_run
from webapp.pages.branch_panel import branch_panel, branch_row, count_newer
from webapp.runs.actions import RequestRefused
from webapp.runs.models import Run
from webapp.teams.access import require_writer, signed_in
from webapp.teams.decorators import account_optional
from webapp.teams.models import User
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.branch_origin import place_text
from webapp.trajectories.models import Trajectory


@account_optional
@require_safe
@never_cache
def branches(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the panel; with `question` one of them if it has changed since `shown`; with `newest` a note on more."""
    trajectory = get_trajectory(request.user, slug)
    question = request.GET.get("question")
    if (newest := request.GET.get("newest")) is not None:
        count = count_newer(trajectory, newest)
        note = {"trajectory": trajectory, "count": count}
        return render(request, "trajectories/_newer_questions.html", note) if count else HttpResponse(status=204)
    if question is None:
        return render(request, "trajectories/_branches.html", branch_panel(request.user, trajectory, {}))
    context = branch_row(request.user, trajectory, question)
    if context is None:
        return HttpResponse("")  # deleted: its row disappears
    if context["row"].shown == request.GET.get("shown"):
        return HttpResponse(status=204)
    return render(request, "trajectories/_branch_question.html", context)


@login_required
@require_POST
def branch_ask(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask the question of the form; with `again` one that failed once more; with `unchanged` one without its change."""
    trajectory = get_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    try:
        question = _ask(request, trajectory)
    except AskedWrongly as problem:
        return _form_again(request, trajectory, problem=problem)
    except RequestRefused as refusal:
        return _form_again(request, trajectory, refused=str(refusal))
    if question.trajectory_id != trajectory.pk:
        return _elsewhere(request, question)
    if _is_htmx(request):
        panel = branch_panel(request.user, trajectory, {}, asked=question.slug)
        return render(request, "trajectories/_branches.html", panel)
    return redirect(_page(trajectory, question))


@login_required
@require_POST
def branch_delete(request: HttpRequest, slug: str, question: str) -> HttpResponse:
    """Cancel a question that waits or is being answered; delete its answer and its branches otherwise."""
    trajectory = get_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    found = _get_question(trajectory, question)
    pending = found.pending
    do_delete_question(found)
    messages.success(request, "Cancelled." if pending else "Deleted, with its branches.")
    return redirect(f"{_page(trajectory, found).partition('#')[0]}#branches")


def _ask(request: HttpRequest, trajectory: Trajectory) -> BranchQuestion:
    user, again, unchanged = signed_in(request), request.POST.get("again"), request.POST.get("unchanged")
    if unchanged is not None:
        changed = _get_question(trajectory, unchanged)
        asked = _asked_before(changed).model_copy(update={"change": Change()})
        return do_ask(trajectory, asked, user, _usable_weights(changed, user))
    if again is None:
        posted = request.POST.dict()
        return do_ask(trajectory, read_asked(posted, trajectory), user, read_run(posted, user))
    failed = _get_question(trajectory, again)
    question = do_ask(trajectory, _asked_before(failed), user, _usable_weights(failed, user))
    if failed.state == BranchQuestion.State.FAILED:
        do_delete_question(failed)
    return question


def _usable_weights(question: BranchQuestion, user: User) -> Run | None:
    """Return the run of a question's weights, which the user may use. Raises RequestRefused."""
    run = question.weights_run
    if run is not None:
        require_usable(run, user)
    return run


def _asked_before(question: BranchQuestion) -> Asked:
    try:
        return asked_before(question)
    except ValidationError:
        raise RequestRefused("This question cannot be asked any more.") from None


def _get_question(trajectory: Trajectory, slug: str) -> BranchQuestion:
    found = BranchQuestion.objects.filter(trajectory=trajectory, slug=slug).select_related("weights_run").first()
    if found is None:
        raise Http404("This question does not exist, or it was deleted.")
    found.trajectory = trajectory
    return found


def _form_again(
    request: HttpRequest, trajectory: Trajectory, problem: AskedWrongly | None = None, refused: str = ""
) -> HttpResponse:
    """Show what was typed and what is wrong: in the panel, or without scripts on a page."""
    context = branch_panel(request.user, trajectory, request.POST.dict(), problem, refused=refused)
    if _is_htmx(request):
        return render(request, "trajectories/_branches.html", context)
    context |= {"page": "runs", "run": trajectory.run, "place": place_text(trajectory), "refused": refused}
    return render(request, "trajectories/branch_ask.html", context, status=400 if problem else 409)


def _elsewhere(request: HttpRequest, question: BranchQuestion) -> HttpResponse:
    """Lead to a question whose position belongs to an attempt that the branch continues."""
    turn, page = (question.turn or 0) + 1, _page(question.trajectory, question)
    messages.info(request, f"Before turn {turn} the branch is this attempt: the question is asked here.")
    return HttpResponse(headers={"HX-Redirect": page}) if _is_htmx(request) else redirect(page)


def _page(trajectory: Trajectory, question: BranchQuestion) -> str:
    """Return the address of the question on the page of the attempt, at its position."""
    position = "" if question.turn is None else f"?turn={question.turn + 1}"
    return f"{reverse('trajectory', args=[trajectory.slug])}{position}#question-{question.slug}"


def _is_htmx(request: HttpRequest) -> bool:
    return bool(request.headers.get("HX-Request"))
