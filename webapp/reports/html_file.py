"""A report as one HTML file without scripts: styles and pictures are inside, players become pictures with a link."""

from __future__ import annotations

import base64
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from webapp.core.quotas import quota
from webapp.explorer.filmstrip import choose, drawn_film
from webapp.explorer.related import same_prompt
from webapp.reports.document import document
from webapp.reports.embed_resolver import Embed
from webapp.reports.models import Report
from webapp.teams.models import User
from webapp.trajectories.models import Trajectory
from webapp.trajectories.render.film import draw_film
from webapp.trajectories.render.preview import nearest_position, preview

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

STYLES = ("css/base.css", "css/result.css", "css/report.css")
KINDS = ("trajectory", "share", "film")
"""Kinds of embeds that become a picture."""


def html_file(report: Report, user: User | AnonymousUser, hosts: Collection[str], site: str) -> str:
    """The file as this reader may have it. `site`: root of the site, for links. May raise DrawingBusy."""
    body = document(report.body, user, hosts, limit=quota("EMBEDS_PER_REPORT"), picture=_picture)
    context = {"report": report, "document": body, "site": site, "styles": _styles(), "now": timezone.now()}
    return render_to_string("reports/file.html", context)


@cache
def _styles() -> SafeString:
    paths = [finders.find(name) for name in STYLES]
    text = "\n".join(Path(str(path)).read_text(encoding="utf-8") for path in paths if path)
    return mark_safe(text.replace("</", "<\\/"))  # own files; nothing in them may end the element


def _picture(embed: Embed) -> str:
    """The picture of an embed as a data address; empty for kinds that need none. Raises DrawingBusy."""
    if embed.reference.kind not in KINDS:
        return ""
    played: Trajectory = embed.context["trajectory"]
    if embed.reference.kind == "film":
        png = _film(played)
    else:
        start: tuple[int, int] | None = embed.context["start"]
        png = preview(played, nearest_position(played, *start) if start else None)
    return "data:image/png;base64," + base64.b64encode(png).decode() if png else ""


def _film(played: Trajectory) -> bytes:
    chosen = choose(same_prompt(played), played.member, noun=played.run.task_noun)
    if not chosen.frames:
        return b""
    return drawn_film(chosen, played.group.environment, "png", lambda film: draw_film(film, "png"))
