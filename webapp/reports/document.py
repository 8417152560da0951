"""A report's body as HTML for one reader: its text, and embeds of objects that this reader may see."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webapp.core.quotas import quota
from webapp.reports import report_charts
from webapp.reports.blocks import blocks
from webapp.reports.references import Reference, list_targets
from webapp.runs import summaries
from webapp.runs.models import Run
from webapp.teams.models import User
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.positions import position_query
from webapp.trajectories.sharing.public import comment_on

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

HIDDEN = ("Not visible to you", "It belongs to another team, is private, or no longer exists.")


@dataclass(frozen=True)
class RenderedBlock:
    """A block as HTML.

    Attributes:
        open: readers without an account see it too.
        key: id of an embed on the page, by which the editor's preview keeps a player that did not change.
    """

    html: SafeString
    embed: bool = False
    open: bool = True
    key: str = ""


def document(body: str, user: User | AnonymousUser, hosts: Collection[str]) -> list[RenderedBlock]:
    """Render a body for a reader. A note replaces each embed beyond the site's limit."""
    parts = blocks(body, hosts)
    references = [block for block in parts if isinstance(block, Reference)]
    limit = quota("EMBEDS_PER_REPORT") or len(references)
    embeds = Embeds(references[:limit], user)
    rendered = []
    copies: Counter[str] = Counter()
    for block in parts:
        if not isinstance(block, Reference):
            rendered.append(RenderedBlock(block))
            continue
        if copies.total() >= limit:
            made = _notice("Not shown", f"A report shows at most {limit} embeds.", is_open=True)
        else:
            made = embeds.render(block)
        digest = hashlib.sha256(made.html.encode()).hexdigest()[:12]
        copies[digest] += 1
        rendered.append(replace(made, key=f"embed-{digest}-{copies[digest]}"))
    return rendered


class Embeds:
    """Renders references for one reader, with one query each for runs, trajectories and share links."""

    def __init__(self, references: Iterable[Reference], user: User | AnonymousUser) -> None:
        slugs, played_slugs, tokens = list_targets(references)
        runs = Run.objects.visible_to(user).select_related("team", "author").defer("log_tail")
        played = Trajectory.with_branches.visible_to(user).select_related("group", "run")
        links = ShareLink.objects.open(timezone.now()).select_related("trajectory__group", "trajectory__run")
        self.runs = {run.slug: run for run in runs.filter(slug__in=slugs)} if slugs else {}
        self.trajectories = {item.slug: item for item in played.filter(slug__in=played_slugs)} if played_slugs else {}
        self.links = {link.token: link for link in links.filter(token__in=tokens)} if tokens else {}

    def render(self, reference: Reference) -> RenderedBlock:
        """Render one of the references; a note replaces objects that the reader may not see."""
        if reference.kind in ("runs", "curves"):
            return self._runs(reference)
        slug, start = reference.slugs[0], reference.position
        if reference.kind == "share":
            link = self.links.get(slug)
            if link is None:
                return _notice(*HIDDEN)
            if start is None and link.turn is not None:
                start = (link.turn, -1 if link.action is None else link.action)
            return _player(reference, link.trajectory, ("shared", "embed"), start, is_open=True)
        played = self.trajectories.get(slug)
        if played is None:
            return _notice(*HIDDEN)
        names = ("prompt", "") if reference.kind == "film" else ("trajectory", "trajectory-embed")
        return _player(reference, played, names, start, is_open=played.run.visibility == Run.Visibility.LINK)

    def _runs(self, reference: Reference) -> RenderedBlock:
        """Render a table of the runs, or their curves."""
        runs = [self.runs[slug] for slug in reference.slugs if slug in self.runs]
        if not runs:
            return _notice(*HIDDEN)
        hidden = len(reference.slugs) - len(runs)
        context: dict[str, Any] = {"runs": runs, "hidden": hidden, "reference": reference}
        if reference.kind == "runs":
            context["rows"] = summaries.cards(runs)
        else:
            slugs = ",".join(run.slug for run in runs)
            single = len(runs) == 1
            context["charts"] = report_charts.draw(runs, reference.names)
            context["address"] = reverse("run-curves", args=[slugs]) if single else f"{reverse('compare')}?runs={slugs}"
            context["address_label"] = runs[0].title if single else "Compare"
        is_open = not hidden and all(run.visibility == Run.Visibility.LINK for run in runs)
        return RenderedBlock(render_to_string(f"reports/_{reference.kind}.html", context), True, is_open)


def _player(
    reference: Reference, played: Trajectory, urls: tuple[str, str], start: tuple[int, int] | None, *, is_open: bool
) -> RenderedBlock:
    """Render a player in a frame, or a trajectory's film strip. `urls`: URL names of its page and of the frame."""
    page, frame = urls
    query = position_query(*start) if start else ""
    slug = reference.slugs[0]
    context = {
        "trajectory": played,
        "comment": comment_on(played),
        "address": reverse(page, args=[slug]) + query,
        "frame": reverse(frame, args=[slug]) + query if frame else "",
        "reference": reference,
    }
    return RenderedBlock(render_to_string("reports/_player.html", context), True, is_open)


def _notice(title: str, text: str, *, is_open: bool = False) -> RenderedBlock:
    html = '<div class="embed-box hidden-embed"><b>{}</b> <span class="soft small">{}</span></div>'
    return RenderedBlock(format_html(html, title, text), True, is_open)
