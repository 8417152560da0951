"""Downloads of checkpoints: the files of one as an archive, for the run's team."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from webapp.core.streaming import streamed
from webapp.runs import run_files
from webapp.runs.access import get_run_of_team


@login_required
@require_safe
def run_checkpoint(request: HttpRequest, slug: str, iteration: int) -> HttpResponseBase:
    """A checkpoint as a tar archive: an ordinary transformers folder, and what resuming needs."""
    run = get_run_of_team(request.user, slug)
    found = run_files.checkpoint(run, iteration)
    if found is None:
        raise Http404(f"There is no checkpoint of iteration {iteration} on this machine or in storage.")
    return streamed(request, found, "application/x-tar", f"{run.slug}-{iteration:06d}.tar", compressible=False)
