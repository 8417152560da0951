"""Endpoints of alert rules and their deliveries."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Router, Status

from webapp.api.auth import Caller, caller
from webapp.api.errors import Problem, invalid, refused
from webapp.api.schemas.alert_schemas import AlertRuleDetail, AlertRuleOut, DeliveryOut, NewRule, RulePatch
from webapp.api.schemas.shared_schemas import Slug
from webapp.core.quotas import QuotaExceeded
from webapp.notifications import rule_actions
from webapp.notifications.forms import RuleForm, form_values
from webapp.notifications.mail_addresses import ConfirmationNotSent, do_send_confirmations, unconfirmed_addresses
from webapp.notifications.models import Delivery, Rule
from webapp.teams.access import require_writer
from webapp.teams.daily_use import Kind, do_count_use
from webapp.teams.models import Team

router = Router(tags=["alerts"])
RuleSlug = Annotated[Slug, Path(description="The rule's public id, as in its address.")]
MAX_DELIVERIES = 200


@router.get("/alerts", response={200: list[AlertRuleOut]} | refused(), operation_id="list_alerts", summary="List rules")
def list_alerts(request: HttpRequest) -> list[AlertRuleOut]:
    """Alert rules of the caller's teams, by name."""
    requester = caller(request)
    rules = Rule.objects.visible_to(requester.user).select_related("team", "author")
    if requester.team is not None:
        rules = rules.filter(team=requester.team)
    return [AlertRuleOut.model_validate(_facts(rule)) for rule in rules.order_by("name", "pk")]


@router.post(
    "/alerts", response={201: AlertRuleDetail} | refused(409), operation_id="create_alert", summary="Create a rule"
)
def create_alert(request: HttpRequest, payload: NewRule) -> Status[AlertRuleDetail]:
    """A rule for events from now on. Only this answer contains the secret of a webhook."""
    requester = caller(request)
    team = requester.team_to_write_in(payload.team)
    settings = _settings(requester, team, payload.model_dump(mode="json", exclude={"team"}), None)
    rule = rule_actions.do_create_rule(team, requester.user, **settings)
    return Status(201, _saved(requester, rule, secret=rule.channel == Rule.Channel.WEBHOOK))


@router.get(
    "/alerts/{slug}", response={200: AlertRuleDetail} | refused(), operation_id="get_alert", summary="Read a rule"
)
def get_alert(request: HttpRequest, slug: RuleSlug) -> AlertRuleDetail:
    """A rule, without its secret; of a webhook's address only the host is shown."""
    return _detail(_rule(caller(request), slug))


@router.patch(
    "/alerts/{slug}",
    response={200: AlertRuleDetail} | refused(409),
    operation_id="update_alert",
    summary="Change a rule",
)
def update_alert(request: HttpRequest, slug: RuleSlug, payload: RulePatch) -> AlertRuleDetail:
    """Omitted fields keep their values. `enabled` switches it on or off; events of the meantime are not delivered."""
    requester = caller(request)
    rule = _rule_to_change(requester, slug)
    changes = payload.model_dump(mode="json", exclude_none=True)
    enabled = changes.pop("enabled", None)
    secret = False
    if changes:
        was_webhook = rule.channel == Rule.Channel.WEBHOOK
        rule_actions.do_change_rule(rule, requester.user, **_settings(requester, rule.team, changes, rule))
        secret = rule.channel == Rule.Channel.WEBHOOK and not was_webhook
    if enabled is not None:
        rule = rule_actions.do_switch_rule(rule, enabled, requester.user)
    return _saved(requester, rule, secret=secret) if changes else _detail(rule)


@router.delete("/alerts/{slug}", response={204: None} | refused(), operation_id="delete_alert", summary="Delete a rule")
def delete_alert(request: HttpRequest, slug: RuleSlug) -> Status[None]:
    """With its log of deliveries."""
    requester = caller(request)
    rule_actions.do_delete_rule(_rule_to_change(requester, slug), requester.user)
    return Status(204, None)


@router.get(
    "/alerts/{slug}/deliveries",
    response={200: list[DeliveryOut]} | refused(),
    operation_id="list_deliveries",
    summary="List a rule's deliveries",
)
def list_deliveries(request: HttpRequest, slug: RuleSlug) -> list[DeliveryOut]:
    """The latest 200, newest first; those about runs that the caller may not read are left out."""
    requester = caller(request)
    rule = _rule(requester, slug)
    visible = Delivery.objects.visible_to(requester.user).filter(rule=rule).select_related("run").order_by("-pk")
    return [_delivery(delivery) for delivery in visible[:MAX_DELIVERIES]]


@router.post(
    "/alerts/{slug}/test", response={201: DeliveryOut} | refused(409), operation_id="test_alert", summary="Test a rule"
)
def test_alert(request: HttpRequest, slug: RuleSlug) -> Status[DeliveryOut]:
    """Send a test alert, also if the rule is switched off. 409 once today's limit of the user is reached."""
    requester = caller(request)
    rule = _rule_to_change(requester, slug)
    do_count_use(Kind.TEST_ALERTS, requester.user, "You have sent too many test alerts today.")
    return Status(201, _delivery(rule_actions.do_test_rule(rule)))


@router.post(
    "/alerts/{slug}/secret",
    response={200: AlertRuleDetail} | refused(409),
    operation_id="rotate_alert_secret",
    summary="Replace a webhook's secret",
)
def rotate_alert_secret(request: HttpRequest, slug: RuleSlug) -> AlertRuleDetail:
    """The answer has the new secret. The old one also signs for 24 hours; 409 if the rule has no webhook."""
    rule = _webhook_to_change(caller(request), slug)
    try:
        rule = rule_actions.do_rotate_secret(rule)
    except rule_actions.RuleRefused as refusal:
        raise Problem(409, str(refusal)) from refusal
    detail = _detail(rule)
    detail.secret = rule.secret
    return detail


@router.delete(
    "/alerts/{slug}/former-secrets",
    response={200: AlertRuleDetail} | refused(409),
    operation_id="end_former_alert_secrets",
    summary="Invalidate replaced secrets",
)
def end_former_alert_secrets(request: HttpRequest, slug: RuleSlug) -> AlertRuleDetail:
    """Alerts are signed with the present secret only from now on. 409 if the rule has no webhook."""
    return _detail(rule_actions.do_end_former_secrets(_webhook_to_change(caller(request), slug)))


def _webhook_to_change(requester: Caller, slug: str) -> Rule:
    rule = _rule_to_change(requester, slug)
    if rule.channel != Rule.Channel.WEBHOOK:
        raise Problem(409, f"The alerts of this rule are not signed: its channel is {rule.channel}, not webhook.")
    return rule


def _rule(requester: Caller, slug: str) -> Rule:
    """Return the rule if the caller may read it. Raises Problem 404."""
    rules = Rule.objects.visible_to(requester.user).select_related("team", "author", "target_author")
    if requester.team is not None:
        rules = rules.filter(team=requester.team)
    rule = rules.filter(slug=slug).first()
    if rule is None:
        raise Problem(404, f"There is no alert rule {slug}, or it belongs to a team you are not in.")
    return rule


def _rule_to_change(requester: Caller, slug: str) -> Rule:
    """Return the rule, as _rule(), for users who may write in its team. Raises PermissionDenied for readers."""
    rule = _rule(requester, slug)
    require_writer(requester.user, rule.team_id)
    return rule


_SCOPE_FIELDS = ("environment", "tag", "run")
"""Fields of the form with the value of a scope, each named after its scope."""


def _settings(requester: Caller, team: Team, values: dict[str, Any], rule: Rule | None) -> dict[str, Any]:
    """Return columns of the rule, validated by the form of its page. Raises Problem 422.

    Args:
        values: fields of the request; a change omits fields that keep their values.
        rule: the changed rule; None for a new rule.
    """
    posted = {} if rule is None else form_values(rule)
    posted |= {name: value for name, value in values.items() if name not in ("threshold", "addresses", "scope_value")}
    if "threshold" in values:
        posted["threshold"] = 100 * values["threshold"]
    if "addresses" in values:
        posted["addresses"] = "\n".join(values["addresses"])
    if "scope_value" in values:
        posted |= dict.fromkeys(_SCOPE_FIELDS, "") | {posted["scope"]: values["scope_value"]}
    form = RuleForm(posted, team=team, user=requester.user, rule=rule)
    if not form.is_valid():
        raise invalid({_field(name): _message(texts[0]) for name, texts in form.errors.items()})
    return form.settings()


def _field(name: str) -> str:
    return "scope_value" if name in _SCOPE_FIELDS else name


def _message(text: object) -> str:
    sentence = str(text)
    return f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}"


def _saved(requester: Caller, rule: Rule, *, secret: bool) -> AlertRuleDetail:
    """Return a rule after a change of its settings; sends confirmation links to addresses that need one."""
    try:
        do_send_confirmations(rule, requester.user)
        problem = ""
    except (QuotaExceeded, ConfirmationNotSent) as error:
        problem = str(error)
    detail = _detail(rule)
    detail.problem = problem
    detail.secret = rule.secret if secret else None
    return detail


def _detail(rule: Rule) -> AlertRuleDetail:
    return AlertRuleDetail.model_validate(
        _facts(rule) | {"unconfirmed": unconfirmed_addresses(rule), "former_secrets_until": rule.former_secrets_until}
    )


def _facts(rule: Rule) -> dict[str, Any]:
    return {
        "slug": rule.slug,
        "team": {"slug": rule.team.slug, "name": rule.team.name},
        "author": rule.author.username if rule.author else None,
        "name": rule.name,
        "events": rule.events,
        "scope": rule.scope,
        "scope_value": rule.scope_value,
        "suite": rule.suite,
        "threshold": rule.threshold,
        "queued_minutes": rule.queued_minutes,
        "stalled_minutes": rule.stalled_minutes,
        "pauses": rule.pauses,
        "channel": rule.channel,
        "target": rule.target_label,
        "enabled": rule.enabled,
        "disabled_reason": rule.disabled_reason,
        "created_at": rule.created_at,
    }


def _delivery(delivery: Delivery) -> DeliveryOut:
    return DeliveryOut.model_validate(
        {
            "slug": delivery.slug,
            "run": delivery.run.slug if delivery.run else None,
            "event": delivery.event,
            "state": delivery.state,
            "tries": delivery.tries,
            "payload": delivery.facts,
            "created_at": delivery.created_at,
            "ended_at": delivery.ended_at,
        }
    )
