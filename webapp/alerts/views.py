"""Pages of alert rules: list, rule with its deliveries, form, delivery with its attempts."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.alerts import actions
from webapp.alerts.access import get_delivery, get_own_rule, get_rule
from webapp.alerts.forms import RuleForm
from webapp.alerts.messages import TITLES, in_order
from webapp.alerts.models import Delivery, DeliveryAttempt, Rule
from webapp.core.mail import mail_is_configured
from webapp.teams.access import may_write, require_writer, writable_teams
from webapp.teams.models import Team, User

DELIVERIES_PER_PAGE = 30
SHOW_SECRET = "show_alert_secret"


@login_required
@require_GET
@never_cache
def alerts(request: HttpRequest) -> HttpResponse:
    """Rules of the user's teams, each with the state of its newest alert."""
    newest = Delivery.objects.filter(rule=OuterRef("pk")).order_by("-pk")
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
    """The form of a new rule."""
    teams = writable_teams(request.user)
    if not teams:
        first = Team.objects.visible_to(request.user).order_by("pk").first()
        if first is None:
            raise Http404("You are not in a team yet.")
        require_writer(request.user, first.pk)
    slug = request.POST.get("team", "") or request.GET.get("team", "")
    team = next((team for team in teams if team.slug == slug), teams[0])
    form = RuleForm(request.POST or None, team=team, address=_user(request).email)
    if request.method == "POST" and form.is_valid():
        rule = actions.do_create_rule(team, _user(request), **form.settings())
        _show_secret_once(request, rule)
        messages.success(request, "Rule created. Send a test to check that alerts arrive.")
        return redirect("alert", rule.slug)
    return _form(request, form, teams=teams, team=team)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def alert_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """The form of an existing rule."""
    rule = get_own_rule(request.user, slug)
    form = RuleForm(request.POST or None, team=rule.team, rule=rule)
    if request.method == "POST" and form.is_valid():
        was_webhook = rule.channel == Rule.Channel.WEBHOOK
        actions.do_change_rule(rule, **form.settings())
        if not was_webhook:
            _show_secret_once(request, rule)
        messages.success(request, "Rule changed. Earlier events are not sent again.")
        return redirect("alert", slug)
    return _form(request, form, teams=[], team=rule.team, rule=rule)


def _form(request: HttpRequest, form: RuleForm, **context: Any) -> HttpResponse:
    context |= {"page": "alerts", "form": form, "mail_configured": mail_is_configured()}
    return render(request, "alerts/form.html", context)


@login_required
@require_GET
@never_cache
def alert(request: HttpRequest, slug: str) -> HttpResponse:
    """A rule and its deliveries."""
    rule = get_rule(request.user, slug)
    writer = may_write(request.user, rule.team_id)
    last = DeliveryAttempt.objects.filter(delivery=OuterRef("pk")).order_by("-pk")
    deliveries: QuerySet[Delivery] = rule.deliveries.select_related("run").annotate(
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
    actions.do_test_rule(get_own_rule(request.user, slug))
    return redirect("alert", slug)


@login_required
@require_POST
def alert_switch(request: HttpRequest, slug: str) -> HttpResponse:
    """`on=1` switches it on, anything else off."""
    actions.do_switch_rule(get_own_rule(request.user, slug), request.POST.get("on") == "1")
    return redirect("alert", slug)


@login_required
@require_POST
def alert_secret(request: HttpRequest, slug: str) -> HttpResponse:
    """Replace the signing key."""
    _show_secret_once(request, actions.do_renew_secret(get_own_rule(request.user, slug)))
    messages.warning(request, "The old secret is invalid. Copy the new one to the receiver now: it is shown only once.")
    return redirect("alert", slug)


@login_required
@require_POST
def alert_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete the rule with its log."""
    rule = get_own_rule(request.user, slug)
    actions.do_delete_rule(rule)
    messages.success(request, f"Rule “{rule.name}” deleted.")
    return redirect("alerts")


@login_required
@require_GET
@never_cache
def delivery(request: HttpRequest, slug: str, delivery_slug: str) -> HttpResponse:
    """A delivery: its payload and its attempts."""
    rule = get_rule(request.user, slug)
    record = get_delivery(rule, delivery_slug)
    context = {
        "page": "alerts",
        "rule": rule,
        "delivery": record,
        "title": TITLES[record.event],
        "attempts": list(record.log.all()[:50]),
        "text": json.dumps(in_order(record.payload), ensure_ascii=False, indent=2),
        "writer": may_write(request.user, rule.team_id),
    }
    return render(request, "alerts/delivery.html", context)


@login_required
@require_POST
def delivery_again(request: HttpRequest, slug: str, delivery_slug: str) -> HttpResponse:
    """Send it again."""
    rule = get_own_rule(request.user, slug)
    try:
        actions.do_redeliver(get_delivery(rule, delivery_slug))
        messages.success(request, "The alert is being sent again, under the same id.")
    except actions.RuleRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("delivery", slug, delivery_slug)


def _show_secret_once(request: HttpRequest, rule: Rule) -> None:
    """Show the secret to its creator on the next page."""
    if rule.channel == Rule.Channel.WEBHOOK:
        request.session[SHOW_SECRET] = rule.slug


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User), "login_required"
    return request.user
