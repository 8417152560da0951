"""What an alert says in each channel: the JSON of a webhook, Slack's text, an e-mail. docs/alerts.md describes them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.urls import reverse

from webapp.alerts.detection import AlertEvent
from webapp.alerts.models import Delivery, Rule
from webapp.core.mail import absolute

VERSION = 1
ORDER = (
    "version",
    "id",
    "event",
    "title",
    "message",
    "at",
    "team",
    "rule",
    "run",
    "details",
    "name",
    "environment",
    "tags",
    "author",
    "state",
    "suite",
    "iteration",
    "iterations",
    "success",
    "success_low",
    "success_high",
    "url",
)
TITLES = {
    "watch": "Echo Trap: watch",
    "trapped": "Echo Trap: trapped",
    "failed": "Run failed",
    "finished": "Run finished",
    "reached": "Success threshold reached",
    "fell": "Success fell below the threshold",
    "queued": "Run waits in the queue",
    "stalled": "Run makes no progress",
    "test": "Test",
}


def payload(rule: Rule, happening: AlertEvent, delivery_id: str) -> dict[str, Any]:
    """All there is to tell, as webhooks carry it and as the log of deliveries shows it."""
    run = happening.run
    details = dict(happening.details)
    if happening.values is not None:
        details["threshold"] = rule.threshold
    return _frame(rule, delivery_id, happening.event, happening.at, happening.message) | {
        "run": {
            "id": run.slug,
            "title": run.title,
            "environment": run.environment,
            "tags": run.tags,
            "author": run.author.get_username() if run.author else None,
            "state": run.state,
            "iteration": run.iteration,
            "iterations": run.iterations,
            "url": absolute(reverse("run", args=[run.slug])),
        },
        "details": details,
    }


def test_payload(rule: Rule, delivery_id: str, at: datetime) -> dict[str, Any]:
    """What the test button sends."""
    message = f"This is a test of the alert rule “{rule.name}”. Nothing happened to any run."
    return _frame(rule, delivery_id, "test", at, message) | {"run": None, "details": {}}


def _frame(rule: Rule, delivery_id: str, event: str, at: datetime, message: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "id": delivery_id,
        "event": event,
        "title": TITLES[event],
        "message": message,
        "at": at.isoformat(),
        "team": rule.team.name,
        "rule": {"id": rule.slug, "name": rule.name, "url": absolute(reverse("alert", args=[rule.slug]))},
    }


def in_order(told: dict[str, Any]) -> dict[str, Any]:
    """The payload as people read it: the database keeps no order of names."""
    known = {name: index for index, name in enumerate(ORDER)}
    return {
        name: in_order(value) if isinstance(value, dict) else value
        for name, value in sorted(told.items(), key=lambda item: (known.get(item[0], len(known)), item[0]))
    }


def webhook_body(delivery: Delivery) -> bytes:
    """The bytes that are signed and posted: the same at every try."""
    return json.dumps(in_order(delivery.payload), ensure_ascii=False, separators=(",", ":")).encode()


def slack_body(delivery: Delivery) -> bytes:
    """A line with a link, as the incoming webhooks of Slack, Mattermost, Rocket.Chat and others take it."""
    told, run = delivery.payload, delivery.payload["run"]
    about = f" <{run['url']}|{_escaped(run['title'])}>" if run else ""
    text = f"*{_escaped(told['title'])}*{about}\n{_escaped(told['message'])}"
    return json.dumps({"text": text}, ensure_ascii=False).encode()


def mail_subject(delivery: Delivery) -> str:
    """In one line, the run first."""
    told, run = delivery.payload, delivery.payload["run"]
    text = f"{run['title']}: {told['title']}" if run else f"{told['title']} of {told['rule']['name']}"
    return " ".join(f"Echoscope: {text}".split())[:200]


def mail_text(delivery: Delivery) -> str:
    """What happened, where to look, and why this mail came."""
    told, run = delivery.payload, delivery.payload["run"]
    lines = [told["message"], ""]
    if run:
        lines += [
            f"Run: {run['title']} ({run['environment']}), iteration {run['iteration']} of {run['iterations']}",
            run["url"],
            "",
        ]
    rule = told["rule"]
    return "\n".join([*lines, f"Sent by the alert rule “{rule['name']}” of {told['team']}: {rule['url']}", ""])


def _escaped(text: str) -> str:
    """Slack's three special characters, and nothing that would become a link or a call to everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
