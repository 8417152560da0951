"""What a reader sees of a report's references: players, run cards, charts, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from webapp.explorer import run_result
from webapp.reports import report_charts
from webapp.reports.references import Reference
from webapp.runs import summaries
from webapp.runs.models import Run
from webapp.teams.models import User
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.positions import position_query
from webapp.trajectories.sharing.public import outcome_of

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

TEMPLATES = {
    "run": "reports/_run.html",
    "result": "reports/_result.html",
    "curves": "reports/_charts.html",
    "trajectory": "reports/_player.html",
    "share": "reports/_player.html",
    "film": "reports/_film.html",
}
ACTIVE = (Run.State.QUEUED, *Run.HELD)


@dataclass(frozen=True)
class Embed:
    """An embed as its template needs it; `context` is empty where the reader may not see the object."""

    reference: Reference
    visible: bool = False
    live: bool = False
    """Whether it changes while a run goes on."""
    open: bool = False
    """Whether a reader without an account sees it too."""
    context: dict[str, Any] = field(default_factory=dict)

    @property
    def template(self) -> str:
        return TEMPLATES[self.reference.kind] if self.visible else "reports/_hidden.html"


class Resolver:
    """Looks up references for one reader: all runs, trajectories and share links in a query each."""

    def __init__(self, references: Sequence[Reference], user: User | AnonymousUser) -> None:
        slugs = {slug for one in references if one.kind in ("run", "result", "curves") for slug in one.slugs}
        played = {one.slugs[0] for one in references if one.kind in ("trajectory", "film")}
        tokens = {one.slugs[0] for one in references if one.kind == "share"}
        visible = Run.objects.visible_to(user).select_related("team", "author").defer("log_tail")
        self.runs = {run.slug: run for run in visible.filter(slug__in=slugs)} if slugs else {}
        trajectories = Trajectory.objects.visible_to(user).select_related("group", "run")
        self.trajectories = {one.slug: one for one in trajectories.filter(slug__in=played)} if played else {}
        links = ShareLink.objects.open(timezone.now()).select_related("trajectory__group", "trajectory__run")
        self.links = {link.token: link for link in links.filter(token__in=tokens)} if tokens else {}
        described = {
            slug for one in references if one.kind in ("run", "result") for slug in one.slugs if slug in self.runs
        }
        rows = summaries.cards([self.runs[slug] for slug in sorted(described)]) if described else []
        self.summaries = {row.slug: row for row in rows}
        self.results: dict[str, run_result.RunResult | None] = {}

    def embed(self, reference: Reference) -> Embed:
        """The embed of one of the references."""
        match reference.kind:
            case "run" | "result":
                return self._run(reference)
            case "curves":
                return self._curves(reference)
            case "share":
                link = self.links.get(reference.slugs[0])
                return Embed(reference) if link is None else self._share(reference, link)
            case _:
                played = self.trajectories.get(reference.slugs[0])
                return Embed(reference) if played is None else self._trajectory(reference, played)

    def _run(self, reference: Reference) -> Embed:
        run = self.runs.get(reference.slugs[0])
        if run is None:
            return Embed(reference)
        address = reverse("run", args=[run.slug])
        context: dict[str, Any] = {"run": run, "row": self.summaries[run.slug], "address": address}
        if run.slug not in self.results:
            self.results[run.slug] = run_result.of_run(run)
        context["result"] = self.results[run.slug]
        return Embed(reference, True, run.state in ACTIVE, run.visibility == Run.Visibility.LINK, context)

    def _curves(self, reference: Reference) -> Embed:
        runs = [self.runs[slug] for slug in reference.slugs if slug in self.runs]
        if not runs:
            return Embed(reference)
        slugs = ",".join(run.slug for run in runs)
        single = len(runs) == 1
        context = {
            "runs": runs,
            "hidden": len(reference.slugs) - len(runs),
            "charts": report_charts.draw(runs, reference.names),
            "address": reverse("run-curves", args=[slugs]) if single else f"{reverse('compare')}?runs={slugs}",
        }
        active = any(run.state in ACTIVE for run in runs)
        return Embed(reference, True, active, all(run.visibility == Run.Visibility.LINK for run in runs), context)

    def _trajectory(self, reference: Reference, played: Trajectory) -> Embed:
        start = position_query(*reference.position) if reference.position else ""
        film = reference.kind == "film"
        context = {
            "trajectory": played,
            "start": reference.position,
            "outcome": outcome_of(played),
            "frame": reverse("trajectory-embed", args=[played.slug]) + start,
            "picture": reverse("film", args=[played.slug, "png"])
            if film
            else reverse("trajectory-picture", args=[played.slug]) + start,
            "address": reverse("prompt" if film else "trajectory", args=[played.slug]) + ("" if film else start),
        }
        return Embed(reference, True, False, played.run.visibility == Run.Visibility.LINK, context)

    def _share(self, reference: Reference, link: ShareLink) -> Embed:
        start = reference.position
        if start is None and link.turn is not None:
            start = (link.turn, -1 if link.action is None else link.action)
        query = position_query(*start) if start else ""
        context = {
            "trajectory": link.trajectory,
            "start": start,
            "outcome": outcome_of(link.trajectory),
            "frame": reverse("embed", args=[link.token]) + query,
            "picture": reverse("shared-picture", args=[link.token]) + query,
            "address": reverse("shared", args=[link.token]) + query,
        }
        return Embed(reference, True, False, True, context)
