"""Form of an alert rule."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

import envs
from webapp.core.mail import mail_is_configured
from webapp.notifications.models import Rule
from webapp.notifications.webhooks import WebhookRefused, check_port, check_url
from webapp.runs.models import Evaluation, Run
from webapp.teams.models import Team, User

MAX_ADDRESSES = 10
Channel, Event, Scope = Rule.Channel, Rule.Event, Rule.Scope
DEFAULT_EVENTS = [event.value for event in (Event.WATCH, Event.TRAPPED, Event.SICK, Event.FAILED, Event.FINISHED)]
"""Events of a rule for one run, unless others are chosen."""


class RuleForm(forms.Form):
    """Settings of a rule. `team` and `user` limit the choices; `rule` provides the current values."""

    name = forms.CharField(max_length=120, help_text="Shown in the list and in every alert.")
    events = forms.MultipleChoiceField(
        label="When",
        choices=Event.choices,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one event."},
    )
    threshold = forms.FloatField(
        label="Success threshold, %",
        min_value=0,
        max_value=100,
        initial=50,
        required=False,
        help_text="One alert each time an evaluation crosses it.",
    )
    suite = forms.CharField(
        label="Evaluation suite",
        max_length=100,
        required=False,
        help_text="Empty: every suite.",
    )
    queued_minutes = forms.IntegerField(
        label="In the queue for longer than, min", min_value=1, max_value=10_000, initial=30, required=False
    )
    stalled_minutes = forms.IntegerField(
        label="Without an event for longer than, min",
        min_value=1,
        max_value=10_000,
        initial=30,
        required=False,
        help_text="Long evaluations and updates report progress, so they do not count as stalled.",
    )
    pauses = forms.BooleanField(
        label="Also pause the run",
        required=False,
        help_text="When it is sick or trapped: it ends its turn, saves a checkpoint and waits to be resumed.",
    )
    scope = forms.ChoiceField(label="For", choices=Scope.choices, initial=Scope.ALL)
    environment = forms.ChoiceField(required=False)
    tag = forms.CharField(max_length=100, required=False)
    run = forms.CharField(
        max_length=24,
        required=False,
        label="Run",
        help_text="The last part of the address of its page, as in /runs/aBcDeF123456/.",
    )
    channel = forms.ChoiceField(label="Notify by", choices=Channel.choices, initial=Channel.INBOX)
    addresses = forms.CharField(
        label="E-mail addresses",
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=f"At most {MAX_ADDRESSES}, separated by commas, spaces or lines. Addresses that are not a member's "
        "are sent a link first, by which their owners permit alerts.",
    )
    url = forms.CharField(
        label="URL",
        max_length=1000,
        required=False,
        widget=forms.TextInput(attrs={"inputmode": "url", "placeholder": "https://", "spellcheck": "false"}),
        help_text="URL of the webhook, or of Slack's incoming webhook.",
    )

    def __init__(
        self,
        data: Any = None,
        *,
        team: Team,
        user: User,
        rule: Rule | None = None,
        address: str = "",
        run: Run | None = None,
        channel: str = "",
    ) -> None:
        defaults: dict[str, Any] = {"addresses": address}
        if run is not None:
            defaults |= {"scope": Scope.RUN, "run": run.slug, "name": f"Run {run.slug}", "events": DEFAULT_EVENTS}
        if channel in Channel.values:
            defaults["channel"] = channel
        super().__init__(data, initial=form_values(rule) if rule else defaults)
        channels = dict(Channel.choices)
        if not mail_is_configured():
            channels[Channel.EMAIL.value] = "E-mail (not configured)"
        self.fields["channel"].choices = list(channels.items())  # type: ignore[attr-defined]
        self.runs = Run.objects.visible_to(user).filter(team=team)
        names = sorted({*envs.names(), *([rule.scope_value] if rule and rule.scope == Scope.ENVIRONMENT else [])})
        self.fields["environment"].choices = [("", "–"), *((name, name) for name in names)]  # type: ignore[attr-defined]
        if rule and rule.author:
            labels = {Scope.OWN.value: f"Runs of {rule.author.get_username()}"}
            self.fields["scope"].choices = [(key, labels.get(key, label)) for key, label in Scope.choices]  # type: ignore[attr-defined]
        suites = (
            Evaluation.objects.filter(run__in=self.runs).order_by("suite").values_list("suite", flat=True).distinct()
        )
        self.suites = list(suites[:100])
        self.fields["suite"].widget.attrs["list"] = "suites"
        for name, field in self.fields.items():
            hints = [f"id_{name}-help"] if field.help_text else []
            if self.is_bound and name in self.errors:
                hints.append(f"id_{name}-error")
            if hints and name != "events":
                field.widget.attrs["aria-describedby"] = " ".join(hints)

    @property
    def chosen(self) -> set[str]:
        """Return the chosen events, scope and channel; the fields of other choices are hidden."""
        values = (self[name].value() for name in ("events", "scope", "channel"))
        return {str(word) for value in values for word in (value if isinstance(value, list) else [value])}

    def clean_addresses(self) -> list[str]:
        addresses = [word for word in re.split(r"[\s,;]+", self.cleaned_data["addresses"]) if word]
        for address in addresses:
            try:
                validate_email(address)
            except ValidationError:
                raise ValidationError(f"{address} is not an e-mail address.") from None
        if len(addresses) > MAX_ADDRESSES:
            raise ValidationError(f"At most {MAX_ADDRESSES} addresses; {len(addresses)} given.")
        return list(dict.fromkeys(addresses))

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        match data.get("channel"):
            case Channel.EMAIL if not data.get("addresses") and "addresses" not in self.errors:
                self.add_error("addresses", "Enter at least one address.")
            case Channel.WEBHOOK | Channel.SLACK:
                try:
                    check_port(check_url(data.get("url", "")))
                except WebhookRefused as refusal:
                    self.add_error("url", str(refusal))
        scope = data.get("scope")
        for needed, field in ((Scope.ENVIRONMENT, "environment"), (Scope.TAG, "tag")):
            if scope == needed and not data.get(field) and field not in self.errors:
                self.add_error(field, f"Enter the {field}." if field == "tag" else "Choose an environment.")
        if scope == Scope.RUN and not self.runs.filter(slug=data.get("run", "")).exists():
            self.add_error("run", "There is no such run in this team. Copy the last part of its page's address.")
        return data

    def settings(self) -> dict[str, Any]:
        """Return the columns of the rule, from a valid form."""
        data = self.cleaned_data
        scope = data["scope"]
        mail = data["channel"] == Channel.EMAIL
        return {
            "name": data["name"],
            "events": data["events"],
            "threshold": _or_default(data["threshold"], 50.0) / 100,
            "suite": data["suite"],
            "queued_minutes": _or_default(data["queued_minutes"], 30),
            "stalled_minutes": _or_default(data["stalled_minutes"], 30),
            "pauses": data["pauses"] and not set(Rule.TROUBLE).isdisjoint(data["events"]),
            "scope": scope,
            "scope_value": data[str(scope)] if scope in (Scope.ENVIRONMENT, Scope.TAG, Scope.RUN) else "",
            "channel": data["channel"],
            "addresses": data["addresses"] if mail else [],
            "url": data["url"].strip() if data["channel"] in (Channel.WEBHOOK, Channel.SLACK) else "",
        }


def _or_default(value: Any, default: Any) -> Any:
    return default if value is None else value


def form_values(rule: Rule) -> dict[str, Any]:
    """Return the form's fields with the settings of a rule."""
    return {
        "name": rule.name,
        "events": rule.events,
        "threshold": f"{100 * rule.threshold:g}",
        "suite": rule.suite,
        "queued_minutes": rule.queued_minutes,
        "stalled_minutes": rule.stalled_minutes,
        "pauses": rule.pauses,
        "scope": rule.scope,
        "environment": rule.scope_value if rule.scope == Scope.ENVIRONMENT else "",
        "tag": rule.scope_value if rule.scope == Scope.TAG else "",
        "run": rule.scope_value if rule.scope == Scope.RUN else "",
        "channel": rule.channel,
        "addresses": ", ".join(rule.addresses),
        "url": rule.url,
    }
