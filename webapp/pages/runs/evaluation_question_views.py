"""Questions about evaluations: their rows on the evaluation tab, asking, cancelling and deleting."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from pydantic import ValidationError

from webapp.branching.asked import AskedWrongly
from webapp.branching.asked_evaluation import AskedOfEvaluation
from webapp.branching.evaluation_actions import do_ask_about_evaluation, do_delete_evaluation_question
from webapp.branching.models import EvaluationQuestion
from webapp.pages.evaluation_answers import answer_of
from webapp.runs.access import get_run
from webapp.runs.actions import RequestRefused
from webapp.runs.models import Run
from webapp.teams.access import require_writer, role_in_team, signed_in
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership


@account_optional
@require_safe
@never_cache
def evaluation_answer(request: HttpRequest, slug: str, question: str) -> HttpResponse:
    """Return a question with its answer if it has changed since `shown`; nothing once it is gone."""
    run = get_run(request.user, slug)
    role = role_in_team(request.user, run.team_id)
    answer = answer_of(run, question, inside=role is not None)
    if answer is None:
        return HttpResponse("")
    if answer.shown == request.GET.get("shown"):
        return HttpResponse(status=204)
    context = {"run": run, "answer": answer, "writer": role in Membership.WRITERS}
    return render(request, "runs/_evaluation_answer.html", context)


@login_required
@require_POST
def evaluation_ask(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask a question about an evaluation."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    posted = {name: request.POST.get(name) for name in ("kind", "suite", "iteration")}
    try:
        asked = AskedOfEvaluation.model_validate({name: text for name, text in posted.items() if text})
        question = do_ask_about_evaluation(run, asked, signed_in(request))
    except ValidationError:
        messages.error(request, "This question does not exist.")
    except (AskedWrongly, RequestRefused) as reason:
        messages.error(request, str(reason))
    else:
        return redirect(_page(run, question.suite))
    return redirect(_page(run, posted["suite"] or ""))


@login_required
@require_POST
def evaluation_question_delete(request: HttpRequest, slug: str, question: str) -> HttpResponse:
    """Cancel a question that waits or is being answered; delete its answer otherwise."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    found = EvaluationQuestion.objects.filter(run=run, slug=question).first()
    if found is None:
        raise Http404("This question does not exist, or it was deleted.")
    found.run = run
    pending = found.pending
    do_delete_evaluation_question(found)
    messages.success(request, "Cancelled." if pending else "Deleted.")
    return redirect(_page(run, found.suite))


def _page(run: Run, suite: str) -> str:
    return f"{reverse('run-evaluation', args=[run.slug])}#asked-{slugify(suite)}"
