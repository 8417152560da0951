"""Panel for attempts without recorded tokens: the request to compute them, its state, or why that is impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from webapp.teams.access import may_write
from webapp.trajectories.computed_text import weights_name
from webapp.trajectories.models import TokenComputation, Trajectory
from webapp.trajectories.token_computation import expected_weights, refusal, sampled_after, status_text

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from webapp.teams.models import User


def token_panel(user: User | AnonymousUser, trajectory: Trajectory) -> dict[str, Any]:
    """Return the context of templates/trajectories/_token_computation.html.

    `shown` identifies the text that is shown: an open page asks for another one.
    """
    computations = TokenComputation.objects.select_related("worker", "trajectory__run")
    computation = computations.filter(trajectory=trajectory).first()
    status = status_text(computation) if computation else ""
    context = {
        "trajectory": trajectory,
        "writer": may_write(user, trajectory.run.team_id),
        "computation": computation,
        "status": status,
        "shown": str(crc32(f"{computation.state if computation else ''} {status}".encode())),
        "refusal": refusal(trajectory),
    }
    if not context["refusal"]:
        expected = expected_weights(trajectory)
        context |= {"weights": weights_name(trajectory.run, expected), "exact": expected == sampled_after(trajectory)}
    return context
