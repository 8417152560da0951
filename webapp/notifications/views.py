"""Pages of alert rules: list, rule with its deliveries, form, delivery with its attempts."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.core.mail import mail_is_configured
from webapp.core.quotas import QuotaExceeded
from webapp.notifications import rule_actions
from webapp.notifications.access import get_delivery, get_own_rule, get_rule
from webapp.notifications.forms import RuleForm
from webapp.notifications.mail_addresses import (
    ConfirmationNotSent,
    do_confirm_address,
    do_send_confirmations,
    unconfirmed_addresses,
)
from webapp.notifications.messages import TITLES
from webapp.notifications.models import AlertAddress, Delivery, DeliveryAttempt, Rule
from webapp.runs.models import Run
from webapp.teams.access import may_write, signed_in, team_to_write_in, writable_teams
from webapp.teams.daily_use import Kind, do_count_use
from webapp.teams.undo_notice import offer_undo

DELIVERIES_PER_PAGE = 30
SHOW_SECRET = "show_alert_secret"


@login_required
@require_GET
@never_cache
def alerts(request: HttpRequest) -> HttpResponse:
    """Show rules of the user's teams, each with the state of its newest alert."""
    newest = Delivery.objects.visible_to(request.user).filter(rule=OuterRef("pk")).order_by("-pk")
    rules = (
        Rule.objects.visible_to(request.user)
        .select_related("team", "author")
        .annotate(last_state=Subquery(newest.values("state")[:1]), last_at=Subquery(newest.values("created_at")[:1]))
    )
    listed = list(rules.order_by("team__name", "name", "pk"))
    writable = writable_teams(request.user)
    context = {
        "page": "alerts",
        "rules": listed,
        "several_teams": len({rule.team_id for rule in listed} | {team.pk for team in writable}) > 1,
        "writer": bool(writable),
        "states": dict(Delivery.State.choices),
    }
    return render(request, "alerts/list.html", context)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def alert_new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new rule."""
    slug = request.POST.get("team", "") or request.GET.get("team", "") or _team_of_run(request)
    team = team_to_write_in(request.user, slug, "There is no such team, or you may not create alert rules in it.")
    run = Run.objects.visible_to(request.user).filter(team=team, slug=request.GET.get("run", "")).first()
    form = RuleForm(
        request.POST or None,
        team=team,
        user=signed_in(request),
        address=signed_in(request).email,
        run=run,
        channel=request.GET.get("channel", ""),
    )
    if request.method == "POST" and form.is_valid():
        rule = rule_actions.do_create_rule(team, signed_in(request), **form.settings())
        _show_secret_once(request, rule)
        _confirm_addresses(request, rule)
        messages.success(request, "Rule created. Send a test to check that alerts arrive.")
        return redirect("alert", rule.slug)
    return _form(request, form, teams=writable_teams(request.user), team=team)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def alert_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the form of an existing rule."""
    rule = get_own_rule(request.user, slug)
    form = RuleForm(request.POST or None, team=rule.team, user=signed_in(request), rule=rule)
    if request.method == "POST" and form.is_valid():
        was_webhook = rule.channel == Rule.Channel.WEBHOOK
        rule_actions.do_change_rule(rule, signed_in(request), **form.settings())
        _confirm_addresses(request, rule)
        if not was_webhook:
            _show_secret_once(request, rule)
        messages.success(request, "Rule changed. Earlier events are not sent again.")
        return redirect("alert", slug)
    return _form(request, form, teams=[], team=rule.team, rule=rule)


def _team_of_run(request: HttpRequest) -> str:
    """Return the slug of the team of the run in `?run=`; "" if the user may not see such a run."""
    runs = Run.objects.visible_to(request.user).filter(slug=request.GET.get("run", ""))
    return runs.values_list("team__slug", flat=True).first() or ""


def _form(request: HttpRequest, form: RuleForm, **context: Any) -> HttpResponse:
    context |= {"page": "alerts", "form": form, "mail_configured": mail_is_configured()}
    return render(request, "alerts/form.html", context)


@login_required
@require_GET
@never_cache
def alert(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a rule and its deliveries."""
    rule = get_rule(request.user, slug)
    writer = may_write(request.user, rule.team_id)
    last = DeliveryAttempt.objects.filter(delivery=OuterRef("pk")).order_by("-pk")
    visible = Delivery.objects.visible_to(request.user).filter(rule=rule).select_related("run")
    deliveries: QuerySet[Delivery] = visible.annotate(
        last_status=Subquery(last.values("status")[:1]), last_answer=Subquery(last.values("answer")[:1])
    )
    page = Paginator(deliveries, DELIVERIES_PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": "alerts",
        "rule": rule,
        "writer": writer,
        "page_obj": page,
        "deliveries": page.object_list,
        "titles": TITLES,
        "waiting": any(delivery.state == Delivery.State.PENDING for delivery in page.object_list),
        "mail_missing": rule.channel == Rule.Channel.EMAIL and not mail_is_configured(),
        "unconfirmed": unconfirmed_addresses(rule),
    }
    if request.headers.get("HX-Request"):
        return render(request, "alerts/_deliveries.html", context)
    show = writer and request.session.get(SHOW_SECRET) == rule.slug
    if show:
        del request.session[SHOW_SECRET]
    context["secret"] = rule.secret if show else ""
    return render(request, "alerts/rule.html", context)


@login_required
@require_POST
def alert_test(request: HttpRequest, slug: str) -> HttpResponse:
    """Send a test."""
    rule = get_own_rule(request.user, slug)
    try:
        _count_test(request)
        rule_actions.do_test_rule(rule)
    except QuotaExceeded as refusal:
        messages.warning(request, f"No test was sent. {refusal}")
    return redirect("alert", slug)


@login_required
@require_POST
def alert_switch(request: HttpRequest, slug: str) -> HttpResponse:
    """Switch the rule on with `on=1`, otherwise off."""
    rule_actions.do_switch_rule(get_own_rule(request.user, slug), request.POST.get("on") == "1", signed_in(request))
    return redirect("alert", slug)


@login_required
@require_POST
def alert_secret(request: HttpRequest, slug: str) -> HttpResponse:
    """Replace the signing key."""
    try:
        _show_secret_once(request, rule_actions.do_rotate_secret(get_own_rule(request.user, slug)))
        messages.success(request, "New secret made. The old one also signs for another 24 hours.")
    except rule_actions.RuleRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("alert", slug)


@login_required
@require_POST
def alert_former_secrets(request: HttpRequest, slug: str) -> HttpResponse:
    """Stop signing with replaced keys."""
    rule_actions.do_end_former_secrets(get_own_rule(request.user, slug))
    messages.success(request, "The old secret is invalid from now on.")
    return redirect("alert", slug)


@login_required
@require_POST
def alert_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete the rule with its log."""
    rule = get_own_rule(request.user, slug)
    offer_undo(request, f"Rule “{rule.name}” deleted.", rule_actions.do_delete_rule(rule, signed_in(request)))
    return redirect("alerts")


@login_required
@require_GET
@never_cache
def delivery(request: HttpRequest, slug: str, delivery_slug: str) -> HttpResponse:
    """Show a delivery: its payload and its attempts."""
    rule = get_rule(request.user, slug)
    record = get_delivery(request.user, rule, delivery_slug)
    context = {
        "page": "alerts",
        "rule": rule,
        "delivery": record,
        "title": TITLES[record.event],
        "attempts": list(record.log.all()[:50]),
        "text": json.dumps(record.facts, ensure_ascii=False, indent=2),
        "writer": may_write(request.user, rule.team_id),
    }
    return render(request, "alerts/delivery.html", context)


@login_required
@require_POST
def delivery_again(request: HttpRequest, slug: str, delivery_slug: str) -> HttpResponse:
    """Send it again."""
    rule = get_own_rule(request.user, slug)
    record = get_delivery(request.user, rule, delivery_slug)
    try:
        if record.event == "test":
            _count_test(request)
        rule_actions.do_redeliver(record)
        messages.success(request, "The alert is being sent again, under the same id.")
    except (rule_actions.RuleRefused, QuotaExceeded) as refusal:
        messages.warning(request, str(refusal))
    return redirect("delivery", slug, delivery_slug)


@require_http_methods(["GET", "POST"])
@never_cache
def alert_address(request: HttpRequest, token: str) -> HttpResponse:
    """Show the page behind the link in a confirmation mail: permit a team's alerts to this address, or stop them."""
    address = AlertAddress.objects.select_related("team").filter(token=token).first()
    if address is None:
        return render(request, "alerts/address.html", {"address": None}, status=404)
    if request.method == "POST":
        do_confirm_address(address, request.POST.get("on") == "1")
    return render(request, "alerts/address.html", {"address": address})


def _confirm_addresses(request: HttpRequest, rule: Rule) -> None:
    """Send links to addresses that need one, and say so."""
    try:
        sent = do_send_confirmations(rule, signed_in(request))
    except (QuotaExceeded, ConfirmationNotSent) as problem:
        messages.warning(request, f"The rule was saved, but an address was not sent its confirmation link. {problem}")
        return
    if sent:
        messages.success(
            request, f"Sent a confirmation link to {', '.join(sent)}. Alerts go there once it was followed."
        )


def _count_test(request: HttpRequest) -> None:
    do_count_use(Kind.TEST_ALERTS, signed_in(request), "You have sent too many test alerts today.")


def _show_secret_once(request: HttpRequest, rule: Rule) -> None:
    """Show the secret to its creator on the next page."""
    if rule.channel == Rule.Channel.WEBHOOK:
        request.session[SHOW_SECRET] = rule.slug
