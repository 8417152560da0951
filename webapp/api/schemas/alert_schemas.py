"""Request and response schemas of alert rules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import Field, StrictBool

from webapp.api.schemas.shared_schemas import Slug, StrictSchema, TeamOut

AlertEvent = Literal["watch", "trapped", "sick", "failed", "finished", "reached", "fell", "share", "queued", "stalled"]
AlertScope = Literal["all", "environment", "tag", "own", "run"]
AlertChannel = Literal["inbox", "email", "webhook", "slack"]
Events = Annotated[list[AlertEvent], Field(min_length=1, max_length=10)]
RuleName = Annotated[str, Field(pattern=r"^[^\x00]*\S[^\x00]*$", max_length=120)]
ScopeValue = Annotated[
    str,
    Field(pattern=r"^[^\x00]*$", max_length=100, description="Environment, tag or slug of the run that `scope` names."),
]
Threshold = Annotated[
    float, Field(strict=True, ge=0, le=1, description="Success rate; of the events reached and fell.")
]
Minutes = Annotated[int, Field(strict=True, ge=1, le=10_000)]
Suite = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=100, description="Evaluation suite; empty = all.")]
Addresses = Annotated[list[Annotated[str, Field(max_length=254)]], Field(max_length=10, description="Of e-mails.")]
Url = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=1000, description="Of a webhook, or of Slack's.")]


class AlertRuleOut(Schema):
    """An alert rule: events of runs that a team is alerted to."""

    slug: str
    team: TeamOut
    author: str | None
    name: str
    events: list[AlertEvent]
    scope: AlertScope
    scope_value: str = Field(description="Environment, tag or slug of the run; empty for other scopes.")
    suite: str = Field(description="Evaluation suite; empty = all.")
    threshold: float = Field(description="Success rate, 0 to 1.")
    queued_minutes: int
    stalled_minutes: int
    pauses: bool = Field(description="Whether a run that is sick or trapped is also paused.")
    channel: AlertChannel
    target: str = Field(description="In words, without the path of an address, which often is a secret.")
    enabled: bool
    disabled_reason: str = Field(description="Why it was switched off automatically; empty otherwise.")
    created_at: datetime


class AlertRuleDetail(AlertRuleOut):
    """An alert rule with the state of its addresses."""

    unconfirmed: list[str] = Field(description="E-mail addresses whose owners have not permitted alerts yet.")
    problem: str = Field(default="", description="Why a confirmation link was not sent; empty if all were.")
    secret: str | None = Field(default=None, description="Signing key of a webhook; only in the answer that makes it.")
    former_secrets_until: datetime | None = Field(
        default=None, description="Until when a replaced secret also signs; null if none does."
    )


class NewRule(StrictSchema):
    """An alert rule to create."""

    name: RuleName
    events: Events
    channel: AlertChannel = "inbox"
    scope: AlertScope = "all"
    scope_value: ScopeValue = ""
    suite: Suite = ""
    threshold: Threshold = 0.5
    queued_minutes: Minutes = 30
    stalled_minutes: Minutes = 30
    pauses: StrictBool = Field(default=False, description="Also pause a run that is sick or trapped.")
    addresses: Addresses = []
    url: Url = ""
    team: Slug | None = Field(default=None, description="Required only with a session whose user is in several teams.")


class RulePatch(StrictSchema):
    """Fields to change; omitted fields keep their values."""

    name: RuleName | None = None
    events: Events | None = None
    channel: AlertChannel | None = None
    scope: AlertScope | None = None
    scope_value: ScopeValue | None = None
    suite: Suite | None = None
    threshold: Threshold | None = None
    queued_minutes: Minutes | None = None
    stalled_minutes: Minutes | None = None
    pauses: StrictBool | None = None
    addresses: Addresses | None = None
    url: Url | None = None
    enabled: StrictBool | None = None


class DeliveryOut(Schema):
    """An alert: one event of one rule."""

    slug: str
    run: str | None = Field(description="Slug; null for a test.")
    event: str = Field(description="An event of the rule, or “test”.")
    state: Literal["pending", "delivered", "failed", "held"]
    tries: int
    payload: dict[str, Any] = Field(description="As it is sent (docs/alerts.md).")
    created_at: datetime
    ended_at: datetime | None
