"""Audit log of a team for its admins, and of the whole site for staff; as a page and as a file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.core.streaming import streamed
from webapp.teams.access import get_team, require_admin
from webapp.teams.audit import record
from webapp.teams.audit_reading import FORMATS, AuditFilter
from webapp.teams.models import AuditAction, AuditEntry, Team

ENTRIES_PER_PAGE = 100
MAX_DIGITS = 18


class FilterForm(forms.Form):
    """Conditions on entries."""

    person = forms.CharField(required=False, max_length=150)
    action = forms.ChoiceField(required=False, choices=[("", "everything"), *AuditAction.choices])
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))

    def conditions(self) -> AuditFilter:
        """Return the valid conditions; invalid ones are shown with their errors and select everything."""
        self.is_valid()
        return AuditFilter(**self.cleaned_data)


def _team(request: HttpRequest, slug: str) -> Team | None:
    """Return the requested team; None for the whole site. Raises Http404 or PermissionDenied."""
    if slug:
        team = get_team(request.user, slug)
        require_admin(request.user, team.pk)
        return team
    if not request.user.has_perm("teams.view_auditentry"):
        raise Http404
    return None


def _entries(team: Team | None) -> QuerySet[AuditEntry]:
    return AuditEntry.objects.all() if team is None else AuditEntry.objects.filter(team=team)


@login_required
@require_GET
@never_cache
def audit(request: HttpRequest, slug: str = "") -> HttpResponse:
    """Show entries, newest first; `?before=` from the link to older ones."""
    team = _team(request, slug)
    form = FilterForm(request.GET)
    entries = form.conditions().of(_entries(team))
    cursor = request.GET.get("before", "")
    if cursor.isascii() and cursor.isdigit() and len(cursor) <= MAX_DIGITS:
        entries = entries.filter(pk__lt=int(cursor))
    page_entries = list(entries[: ENTRIES_PER_PAGE + 1])
    context: dict[str, Any] = {
        "page": "team",
        "team": team,
        "form": form,
        "address": reverse("team-audit", args=[slug]) if team else reverse("site-audit"),
        "entries": page_entries[:ENTRIES_PER_PAGE],
        "older": page_entries[ENTRIES_PER_PAGE - 1].pk if len(page_entries) > ENTRIES_PER_PAGE else None,
        "first_page": not cursor,
        "kinds": list(FORMATS),
    }
    return render(request, "teams/audit.html", context)


@login_required
@require_GET
def audit_export(request: HttpRequest, kind: str, slug: str = "") -> HttpResponseBase:
    """Send all matching entries as a file. The download is recorded, too."""
    team = _team(request, slug)
    if kind not in FORMATS:
        raise Http404("The audit log is exported as csv or jsonl.")
    record(AuditAction.EXPORTED, "audit log", team=team, file=kind)
    media_type, write = FORMATS[kind]
    entries = FilterForm(request.GET).conditions().of(_entries(team))
    return streamed(request, write(entries), media_type, f"audit-log.{kind}", compressible=True)
