"""Inbox of the user: list, opening an entry, settings."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from webapp.core.mail import mail_is_configured
from webapp.notifications import actions, inbox
from webapp.notifications.models import Follow, Notification, NotificationPreference
from webapp.runs.models import Run
from webapp.teams.access import signed_in

ENTRIES_PER_PAGE = 40
MAX_FOLLOWS = 50
MAX_DIGITS = 17
SHOWN = {"all": "All", "unread": "Unread", "mentions": "Mentions"}
CHOICES = (
    ("own_runs", "Runs I started: finished, failed, Echo Trap, first successes"),
    ("comments", "Comments on runs I started or follow, and on attempts I commented on"),
    ("team_alerts", "Alert rules of my teams that use the inbox"),
)


@login_required
@require_GET
@never_cache
def inbox_page(request: HttpRequest) -> HttpResponse:
    """Show entries, newest first; `?show=unread` or `mentions`, `?before=` from the link to earlier ones."""
    user = signed_in(request)
    shown = _shown(request.GET.get("show", ""))
    entries = inbox.entries(user, before=_before(request), show=shown, limit=ENTRIES_PER_PAGE + 1)
    preference = NotificationPreference.objects.filter(user=user).first() or NotificationPreference()
    follows = Follow.objects.filter(user=user, on=True, run__in=Run.objects.listed_for(user).values("pk"))
    context = {
        "page": "inbox",
        "entries": entries[:ENTRIES_PER_PAGE],
        "earlier": inbox.microseconds(entries[ENTRIES_PER_PAGE - 1].at) if len(entries) > ENTRIES_PER_PAGE else None,
        "shown": shown,
        "tabs": SHOWN.items(),
        "choices": [(name, label, getattr(preference, name)) for name, label in CHOICES],
        "follows": follows.select_related("run")[:MAX_FOLLOWS],
        "mail_configured": mail_is_configured(),
        "mention_mail": preference.mention_mail,
    }
    return render(request, "inbox/inbox.html", context)


def _shown(text: str) -> str:
    return text if text in SHOWN else "all"


def _before(request: HttpRequest) -> datetime | None:
    text = request.GET.get("before", "")
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    return inbox.from_microseconds(int(text)) if is_number else None


@login_required
@require_GET
@never_cache
def inbox_open(request: HttpRequest, slug: str) -> HttpResponse:
    """Mark the notification as read and redirect to its page."""
    user = signed_in(request)
    notification = Notification.objects.of(user).filter(slug=slug).first()
    if notification is None:
        raise Http404("This notification no longer exists, or it is about a run that you may no longer see.")
    actions.do_read(user, slug)
    return redirect(notification.path)


@login_required
@require_POST
def inbox_read(request: HttpRequest) -> HttpResponse:
    """Mark all notifications and mentions as read; from the list of mentions, only mentions."""
    user, shown = signed_in(request), _shown(request.POST.get("show", ""))
    actions.do_read_all(user, mentions_only=shown == "mentions")
    return redirect(f"{reverse('inbox')}?show={shown}")


@login_required
@require_POST
def inbox_settings(request: HttpRequest) -> HttpResponse:
    """Change the user's notification settings."""
    user = signed_in(request)
    chosen = {name: request.POST.get(name) == "1" for name, _ in CHOICES}
    if mail_is_configured() and user.email:  # else the form does not contain it
        chosen["mention_mail"] = request.POST.get("mention_mail") == "1"
    actions.do_set_preferences(user, **chosen)
    messages.success(request, "Settings of notifications saved.")
    return redirect("inbox")
