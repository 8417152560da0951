"""Actions on reports, each in a transaction. Every save of title or body makes a revision."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.dispatch import receiver
from django.utils import timezone

from webapp.core import formatting
from webapp.core.quotas import QuotaExceeded, is_reached, quota
from webapp.reports.blocks import references
from webapp.reports.models import MAX_TITLE_LENGTH, Report, Revision
from webapp.reports.references import Reference
from webapp.runs.models import Run, readable_by
from webapp.teams.models import Membership, Removal, Team, User
from webapp.teams.removals import UndoRefused, do_remove, restored
from webapp.trajectories.models import ShareLink, Trajectory


class ReportRefused(ValueError):
    """The report is invalid. The message gives the reason; `field` is where."""

    def __init__(self, message: str, field: str = "body") -> None:
        super().__init__(message)
        self.field = field


class EditConflict(Exception):
    """Another save came first, and nothing was changed. `current` is the report as it is now."""

    def __init__(self, current: Report) -> None:
        last = current.revisions.select_related("author").first()
        self.current = current
        self.editor = last.author.username if last and last.author else "A former member"
        super().__init__(
            f"{self.editor} saved version {current.version} while you were writing. Nothing was overwritten."
        )


@transaction.atomic
def do_create_report(
    team: Team,
    author: User,
    title: str,
    body: str,
    hosts: Collection[str],
    visibility: Report.Visibility = Report.Visibility.TEAM,
) -> Report:
    """Create a report. Raises ReportRefused or QuotaExceeded."""
    title, body, found = _checked(title, body, hosts)
    _require_room(team.pk, "Delete one first.")
    if is_reached("REPORTS_PER_TEAM", Report._base_manager.filter(team=team, deleted_at__isnull=False).count()):
        raise QuotaExceeded(
            f"This team deleted {quota('REPORTS_PER_TEAM'):,} reports within {Report.UNDO_TIME.days} days, and they "
            "can still be brought back. Wait until the oldest of them are gone."
        )
    now = timezone.now()
    report = Report.objects.create(
        team=team, author=author, title=title, body=body, visibility=visibility, edited_at=now
    )
    Revision.objects.create(report=report, number=1, title=title, body=body, author=author, created_at=now)
    _update_mentions(report, author, found)
    return report


@transaction.atomic
def do_edit_report(
    report: Report,
    editor: User,
    title: str,
    body: str,
    version: int,
    hosts: Collection[str],
    *,
    restored: int | None = None,
) -> Report:
    """Save title and body, written from `version`. Raises EditConflict, ReportRefused or QuotaExceeded."""
    title, body, found = _checked(title, body, hosts)
    current = Report.objects.select_for_update().get(pk=report.pk)
    if (title, body) == (current.title, current.body):
        return current
    if current.version != version:
        raise EditConflict(current)
    now = timezone.now()
    current.title, current.body, current.version, current.edited_at = title, body, version + 1, now
    current.save(update_fields=["title", "body", "version", "edited_at"])
    Revision.objects.create(
        report=current,
        number=current.version,
        title=title,
        body=body,
        author=editor,
        restored=restored,
        created_at=now,
    )
    kept = quota("REVISIONS_PER_REPORT")
    if kept:
        Revision.objects.filter(report=current, number__lte=current.version - kept).delete()
    _update_mentions(current, editor, found)
    return current


def do_restore_revision(report: Report, editor: User, number: int, hosts: Collection[str]) -> Report:
    """Save an earlier revision again as the newest one. Raises Revision.DoesNotExist, EditConflict, QuotaExceeded."""
    revision = report.revisions.get(number=number)
    return do_edit_report(
        report, editor, revision.title, revision.body, report.version, hosts, restored=revision.number
    )


def do_set_visibility(report: Report, visibility: Report.Visibility) -> None:
    """Set who can read it."""
    Report.objects.filter(pk=report.pk).update(visibility=visibility)
    report.visibility = visibility


def do_archive_report(report: Report, archived: bool) -> None:
    """Archive it, or put it back into the list."""
    report.archived_at = timezone.now() if archived else None
    Report.objects.filter(pk=report.pk).update(archived_at=report.archived_at)


def do_delete_report(report: Report, by: User) -> Removal | None:
    """Delete it. Returns what undoes it."""
    rows, name = Report.objects.filter(pk=report.pk), f"the report “{report.title}”"
    return do_remove(rows, team=report.team, by=by, name=name, role=Membership.Role.MEMBER)


@receiver(restored, sender=Report)
def _require_room_for_restored(rows: list[Report], **kwargs: Any) -> None:
    for report in rows:
        try:
            _require_room(report.team_id, "Delete another one first, then bring this one back.", restored=1)
        except QuotaExceeded as refusal:
            raise UndoRefused(str(refusal)) from None


def _require_room(team_id: int, remedy: str, restored: int = 0) -> None:
    """Lock the team. Raises QuotaExceeded if it has no room for another report, besides those just restored."""
    Team.objects.select_for_update().only("pk").get(pk=team_id)
    if is_reached("REPORTS_PER_TEAM", Report.objects.filter(team=team_id).count() - restored):
        raise QuotaExceeded(
            f"This team has {quota('REPORTS_PER_TEAM'):,} reports, the most that a team may have. {remedy}"
        )


def _checked(title: str, body: str, hosts: Collection[str]) -> tuple[str, str, list[Reference]]:
    """Cleaned title and body, and what the body embeds. Raises ReportRefused or QuotaExceeded."""
    title = " ".join(title.replace("\0", "").split())
    body = body.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n").rstrip()
    if not title:
        raise ReportRefused("Give the report a title.", "title")
    if len(title) > MAX_TITLE_LENGTH:
        raise ReportRefused(f"A title has at most {MAX_TITLE_LENGTH} characters; this one has {len(title):,}.", "title")
    check_length(body)
    found = references(body, hosts)
    most = quota("EMBEDS_PER_REPORT")
    if 0 < most < len(found):
        raise QuotaExceeded(
            f"A report has at most {formatting.plural(most, 'embed')}; this one has {len(found)}. Put some of the "
            "addresses into a sentence: they become plain links."
        )
    return title, body, found


def check_length(body: str) -> None:
    """Raise QuotaExceeded for a body that is too long."""
    most = quota("REPORT_CHARACTERS")
    if 0 < most < len(body):
        raise QuotaExceeded(
            f"A report has at most {most:,} characters; this one has {len(body):,}. Split it into two reports."
        )


def _update_mentions(report: Report, editor: User, found: Collection[Reference]) -> None:
    """Record the runs and trajectories that it embeds: those of its team in any case, and retention keeps them.

    Of other teams, runs that its editor may see or that an earlier editor saw.
    """
    slugs = {slug for one in found if one.kind in ("run", "result", "curves") for slug in one.slugs}
    played = {one.slugs[0] for one in found if one.kind in ("trajectory", "film")}
    tokens = [one.slugs[0] for one in found if one.kind == "share"]
    before = set(report.runs.values_list("pk", flat=True))
    known = Run.objects.filter(readable_by(editor) | Q(team=report.team_id) | Q(pk__in=before))
    runs = set(known.filter(slug__in=slugs).values_list("pk", flat=True))
    embedded = Trajectory.objects.filter(slug__in=played, run__in=known.values("pk"))
    found_in = list(embedded.values_list("pk", "run_id", "run__team_id"))
    links = ShareLink.objects.open(timezone.now()).filter(token__in=tokens)
    found_in += links.values_list("trajectory_id", "trajectory__run_id", "trajectory__run__team_id")
    report.runs.set(runs | {run for _, run, _ in found_in})
    report.trajectories.set({pk for pk, _, team in found_in if team == report.team_id})
