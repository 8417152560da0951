"""Views that change a run (requests, priority, visibility), and downloads of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from webapp.core import formatting
from webapp.core.quotas import QuotaExceeded
from webapp.core.streaming import streamed
from webapp.runs import run_files
from webapp.runs.access import get_run, get_run_of_team, require_may_prefer, require_may_set
from webapp.runs.actions import RequestRefused, do_request, do_request_rebuild, do_update_run, record_run
from webapp.runs.models import Run
from webapp.teams.access import require_writer, signed_in
from webapp.teams.models import AuditAction
from webapp.teams.undo_notice import offer_undo
from webapp.trajectories.actions import do_revoke_shares_of_run
from webapp.trajectories.exports.policy_archive import policy_archive
from webapp.trajectories.sharing.share_links import open_shares

REQUEST_MESSAGES = {
    "pause": "The run pauses after the current turn and writes a checkpoint.",
    "stop": "The run stops after the current turn and writes a checkpoint.",
    "cancel": "The run is cancelled. Its results so far are kept.",
    "undo-cancel": "The cancellation is undone.",
    "resume": "The run is queued again and continues from its last checkpoint.",
}
PRIORITY_MESSAGES = {
    Run.Priority.LOW: "The run now has low priority: other runs start first until it has waited a long time.",
    Run.Priority.NORMAL: "The run now has normal priority.",
    Run.Priority.HIGH: "The run now has high priority: it starts before the team's other runs.",
}
VISIBILITY_MESSAGES = {
    Run.Visibility.PRIVATE: "This run is now visible to its author and the team's admins only.",
    Run.Visibility.TEAM: "This run is now visible to the team only.",
    Run.Visibility.LINK: "Anyone with the link can now see this run, without an account.",
}


@login_required
@require_POST
def run_request(request: HttpRequest, slug: str, action: str) -> HttpResponse:
    """Request a pause, resume, stop or cancellation, or undo a cancellation."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    try:
        do_request(run, action)
        messages.success(request, REQUEST_MESSAGES[action])
    except (RequestRefused, QuotaExceeded) as refusal:
        messages.warning(request, str(refusal))
    return redirect("run", slug)


@login_required
@require_POST
def run_rebuild(request: HttpRequest, slug: str) -> HttpResponse:
    """Request a rebuild of the run's tables from its journal."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    try:
        do_request_rebuild(run)
        messages.success(request, "These pages are being rebuilt from the journal; they reload when that is done.")
    except RequestRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("run", slug)


@login_required
@require_POST
def run_priority(request: HttpRequest, slug: str) -> HttpResponse:
    """Set the priority: low or normal by writers, high by admins of the team."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    priority = Run.Priority.named(request.POST.get("priority", ""))
    if priority is None:
        messages.warning(request, "Choose a priority: low, normal or high. Nothing was changed.")
        return redirect("run", slug)
    require_may_prefer(request.user, run.team_id, priority)
    do_update_run(run, priority=priority)
    messages.success(request, PRIORITY_MESSAGES[priority])
    return redirect("run", slug)


@login_required
@require_POST
def run_visibility(request: HttpRequest, slug: str) -> HttpResponse:
    """Set the visibility: private, team, or anyone with the link."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    value = request.POST.get("visibility", "")
    if value not in Run.Visibility.values:
        messages.warning(request, "Choose a visibility. Nothing was changed.")
        return redirect("run", slug)
    visibility = Run.Visibility(value)
    require_may_set(request.user, run, visibility)
    do_update_run(run, visibility=visibility)
    messages.success(request, VISIBILITY_MESSAGES[visibility])
    shares = open_shares(run)
    if visibility == Run.Visibility.PRIVATE and shares:
        count = formatting.plural(shares, "share link")
        messages.warning(
            request,
            f"{count} to its attempts still work{'s' if shares == 1 else ''}, for anyone. Revoke them under "
            "“Visible to”.",
        )
    back = request.POST.get("next", "")
    if back.startswith("/") and url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        return redirect(back)
    return redirect("run", slug)


@login_required
@require_POST
def run_shares_revoke(request: HttpRequest, slug: str) -> HttpResponse:
    """Revoke all share links of the run's trajectories."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    count, removal = do_revoke_shares_of_run(run, signed_in(request))
    revoked = f"{formatting.plural(count, 'share link')} revoked."
    offer_undo(request, revoked if count else "There are no open share links any more.", removal)
    back = request.POST.get("next", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else reverse("run", args=[slug]))


@login_required
@require_safe
def run_checkpoint(request: HttpRequest, slug: str, iteration: int) -> HttpResponseBase:
    """Send a checkpoint as a tar archive: a transformers model folder and the files needed to resume."""
    run = get_run_of_team(request.user, slug)
    name = run_files.checkpoint_name(run, iteration)
    return _archive(request, run, iteration, name, run_files.checkpoint(run, iteration))


@login_required
@require_safe
def run_model(request: HttpRequest, slug: str, iteration: int) -> HttpResponseBase:
    """Send the model of a checkpoint as a tar archive: a transformers model folder with its model card."""
    run = get_run_of_team(request.user, slug)
    return _archive(request, run, iteration, run_files.model_name(run, iteration), policy_archive(run, iteration))


def _archive(
    request: HttpRequest, run: Run, iteration: int, name: str, blocks: Iterator[bytes] | None
) -> HttpResponseBase:
    if blocks is None:
        raise Http404(f"The checkpoint of iteration {iteration} is neither on this machine nor in storage.")
    record_run(AuditAction.EXPORTED, run, file=f"{name}.tar")
    return streamed(request, blocks, "application/x-tar", f"{name}.tar", compressible=False)
