"""Actions on reports, each in a transaction. Every save of title or body makes a revision."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from webapp.core import formatting
from webapp.core.quotas import QuotaExceeded, is_reached, quota
from webapp.reports.blocks import references
from webapp.reports.models import MAX_TITLE_LENGTH, Report, Revision
from webapp.reports.references import Reference, list_targets
from webapp.runs.models import Run, readable_by
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Membership, Removal, Team, User
from webapp.teams.removals import do_remove
from webapp.trajectories.models import ShareLink, Trajectory


class ReportRefused(ValueError):
    """The report is invalid. The message gives the reason; `field` names the field."""

    def __init__(self, message: str, field: str = "body") -> None:
        super().__init__(message)
        self.field = field


class EditConflict(Exception):
    """Another user has saved the report since, as `version`; nothing was changed."""

    def __init__(self, last: Revision) -> None:
        self.version = last.number
        editor = last.author.username if last.author else "A former member"
        super().__init__(f"{editor} saved version {last.number} while you were writing. Nothing was overwritten.")


@transaction.atomic
def do_create_report(
    team: Team,
    author: User,
    title: str,
    body: str,
    hosts: Collection[str],
    *,
    visibility: str = Report.Visibility.TEAM,
) -> Report:
    """Create a report. Raises ReportRefused or QuotaExceeded."""
    title, body, embeds = _checked(title, body, hosts, visibility)
    Team.objects.select_for_update().only("pk").get(pk=team.pk)
    if is_reached("REPORTS_PER_TEAM", Report._base_manager.filter(team=team).count()):
        raise QuotaExceeded(
            f"This team has {quota('REPORTS_PER_TEAM'):,} reports, the most that a team may have. Deleted ones count "
            f"until they can no longer be brought back, {Report.UNDO_TIME.days} days later."
        )
    report = Report(team=team, author=author, visibility=visibility)
    _save(report, author, title, body, embeds)
    _record(report, "created")
    return report


def _record(report: Report, change: str, **details: Any) -> None:
    subject = f"report “{report.title}”: {change}"
    record(AuditAction.REPORT_CHANGED, subject, team=report.team, path=report.get_absolute_url(), **details)


@transaction.atomic
def do_edit_report(
    report: Report,
    editor: User,
    title: str,
    body: str,
    hosts: Collection[str],
    *,
    version: int,
    visibility: str = "",
    restored: int | None = None,
) -> Report:
    """Save title and body, written from `version`, and `visibility` unless it is empty.

    An unchanged text makes no revision. Raises EditConflict, ReportRefused or QuotaExceeded.
    """
    title, body, embeds = _checked(title, body, hosts, visibility or report.visibility)
    current = Report.objects.select_for_update().get(pk=report.pk)
    changed = (title, body) != (current.title, current.body)
    if changed and current.version != version:
        raise EditConflict(current.revisions.select_related("author")[0])
    if visibility not in ("", current.visibility):
        current.visibility = visibility
        current.save(update_fields=["visibility"])
        _record(current, "visibility", visibility=visibility)
    if changed:
        current.version += 1
        _save(current, editor, title, body, embeds, restored)
        _record(current, f"version {current.version}")
    return current


def do_restore_revision(report: Report, editor: User, number: int, hosts: Collection[str]) -> Report:
    """Save an earlier revision again as the newest one. Raises Revision.DoesNotExist, EditConflict, QuotaExceeded."""
    old = report.revisions.get(number=number)
    return do_edit_report(report, editor, old.title, old.body, hosts, version=report.version, restored=old.number)


def do_delete_report(report: Report, by: User) -> Removal | None:
    """Delete the report. Returns the removal, which can be undone."""
    rows, name = Report.objects.filter(pk=report.pk), f"the report “{report.title}”"
    return do_remove(rows, team=report.team, by=by, name=name, role=Membership.Role.MEMBER)


def _checked(title: str, body: str, hosts: Collection[str], visibility: str) -> tuple[str, str, list[Reference]]:
    """Return the cleaned title and body, and the embeds of the body. Raises ReportRefused or QuotaExceeded."""
    title = " ".join(title.replace("\0", "").split())
    body = body.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n").rstrip()
    if visibility not in Report.Visibility.values:
        raise ReportRefused("Choose who may read the report.", "visibility")
    if not title:
        raise ReportRefused("Give the report a title.", "title")
    if len(title) > MAX_TITLE_LENGTH:
        raise ReportRefused(f"A title has at most {MAX_TITLE_LENGTH} characters; this one has {len(title):,}.", "title")
    check_length(body)
    embeds = references(body, hosts)
    most = quota("EMBEDS_PER_REPORT")
    if 0 < most < len(embeds):
        raise QuotaExceeded(
            f"A report has at most {formatting.plural(most, 'embed')}; this one has {len(embeds)}. Put some of the "
            "addresses into a sentence: they become plain links."
        )
    return title, body, embeds


def check_length(body: str) -> None:
    """Raise QuotaExceeded for a body that is too long."""
    most = quota("REPORT_CHARACTERS")
    if 0 < most < len(body):
        raise QuotaExceeded(
            f"A report has at most {most:,} characters; this one has {len(body):,}. Split it into two reports."
        )


def _save(
    report: Report, editor: User, title: str, body: str, embeds: Collection[Reference], restored: int | None = None
) -> None:
    """Save title and body as the revision with the report's number, and link the embedded runs and trajectories."""
    now = timezone.now()
    report.title, report.body, report.edited_at = title, body, now
    report.save()
    Revision.objects.create(
        report=report,
        number=report.version,
        title=title,
        body=body,
        author=editor,
        restored=restored,
        created_at=now,
    )
    if limit := quota("REVISIONS_PER_REPORT"):
        Revision.objects.filter(report=report, number__lte=report.version - limit).delete()
    # A report mentions runs of other teams only if this or an earlier editor may see them.
    slugs, played, tokens = list_targets(embeds)
    mentioned = set(report.runs.values_list("pk", flat=True))
    known = Run.objects.filter(readable_by(editor) | Q(team=report.team_id) | Q(pk__in=mentioned))
    runs = set(known.filter(slug__in=slugs).values_list("pk", flat=True))
    embedded = Trajectory.with_branches.filter(slug__in=played, run__in=known.values("pk"))
    played_runs = list(embedded.values_list("pk", "run_id", "run__team_id"))
    links = ShareLink.objects.open(timezone.now()).filter(token__in=tokens)
    played_runs += links.values_list("trajectory_id", "trajectory__run_id", "trajectory__run__team_id")
    report.runs.set(runs | {run for _, run, _ in played_runs})
    report.trajectories.set({pk for pk, _, team in played_runs if team == report.team_id})
