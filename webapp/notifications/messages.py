"""Texts for each channel: webhook JSON, Slack text, e-mails. Described in docs/alerts.md."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from webapp.annotations.models import Comment
from webapp.core import formatting
from webapp.core.mail import absolute
from webapp.core.names import without_links
from webapp.notifications.models import Delivery, Notification, Rule, RunEvent
from webapp.trajectories.branch_origin import place_text
from webapp.trajectories.models import BRANCH


@dataclass(frozen=True)
class Letter:
    """An e-mail."""

    to: list[str]
    subject: str
    text: str


VERSION = 1
TITLES = {
    "watch": "Echo Trap: watch",
    "trapped": "Echo Trap: trapped",
    "sick": "Run is sick",
    "failed": "Run failed",
    "finished": "Run finished",
    "reached": "Success threshold reached",
    "fell": "Success fell below the threshold",
    "share": "Watched view rose above its threshold",
    "queued": "Run waits in the queue",
    "stalled": "Run makes no progress",
    "test": "Test",
}

LEADS = {
    "watch": "Echo Trap: watch",
    "trapped": "Echo Trap: trapped",
    "sick": "Sick",
    "failed": "Failed",
    "finished": "Finished",
    "share": "Watched view",
}
"""Beginnings of the messages that say where in the run it happened."""


def payload(rule: Rule, name: str, event: RunEvent, delivery_id: str) -> str:
    """Return an alert's payload for webhooks and the delivery log. `name` is the event of the rule."""
    run = event.run
    details = event.details | ({"threshold": rule.threshold} if event.kind == RunEvent.EVALUATION else {})
    frame = _frame(rule, delivery_id, name, event.at, _sentence(name, event))
    facts = {
        "id": run.slug,
        "title": run.title,
        "environment": run.environment,
        "tags": run.tags,
        "author": run.author.get_username() if run.author else None,
        "state": run.state,
        "iteration": run.iteration,
        "iterations": run.iterations,
        "url": absolute(reverse("run", args=[run.slug])),
    }
    return _encoded(frame | {"run": facts, "details": details})


def _sentence(name: str, event: RunEvent) -> str:
    if event.kind == RunEvent.EVALUATION:
        facts = event.details
        success, low, high = (formatting.percent(facts[key]) for key in ("success", "success_low", "success_high"))
        verb = "reached" if name == Rule.Event.REACHED else "fell to"
        return f"{facts['suite']} {verb} {success} {event.where} (95% interval {low} to {high})."
    if name not in LEADS:
        return event.message
    return f"{LEADS[name]} {event.where}".strip() + f". {event.message}".rstrip()


def test_payload(rule: Rule, delivery_id: str, at: datetime) -> str:
    """Return the payload of a test."""
    message = f"This is a test of the alert rule “{rule.name}”. Nothing happened to any run."
    return _encoded(_frame(rule, delivery_id, "test", at, message) | {"run": None, "details": {}})


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


def _encoded(facts: dict[str, Any]) -> str:
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def slack_body(delivery: Delivery) -> bytes:
    """Return a line with a link, in the format of incoming webhooks of Slack, Mattermost and Rocket.Chat."""
    payload = delivery.facts
    run = payload["run"]
    about = f" <{run['url']}|{_escaped(run['title'])}>" if run else ""
    text = f"*{_escaped(payload['title'])}*{about}\n{_escaped(payload['message'])}"
    return json.dumps({"text": text}, ensure_ascii=False).encode()


def alert_letter(delivery: Delivery, to: list[str]) -> Letter:
    """Write the e-mail of an alert: the run first, then the event, the links, and the rule that sent it."""
    payload = delivery.facts
    run, rule = payload["run"], payload["rule"]
    subject = f"{run['title']}: {payload['title']}" if run else f"{payload['title']} of {rule['name']}"
    lines = [payload["message"], ""]
    if run:
        lines += [
            f"Run: {run['title']} ({run['environment']}), iteration {run['iteration']} of {run['iterations']}",
            run["url"],
            "",
        ]
    lines += [f"Sent by the alert rule “{rule['name']}” of {payload['team']}: {rule['url']}", ""]
    return Letter(to, f"Echoscope: {without_links(subject)}"[:200], "\n".join(lines))


def switched_off_letter(rule: Rule, to: list[str], reason: str) -> Letter:
    """Write the e-mail to admins about a rule that the site switched off."""
    link = absolute(reverse("alert", args=[rule.slug]))
    text = f"The alert rule “{rule.name}” of {rule.team.name} was switched off: {reason}\n\n{link}\n"
    return Letter(to, "Echoscope: an alert rule was switched off", text)


def mention_title(comment: Comment) -> str:
    """Say who mentions a user, and where."""
    trajectory = comment.trajectory
    noun = trajectory.run.task_noun if trajectory.split == "eval" else "group"
    turn = "" if comment.turn is None else f"turn {comment.turn + 1} of "
    number, attempt = trajectory.group.number + 1, trajectory.member + 1
    place = place_text(trajectory) if trajectory.split == BRANCH else f"{noun} {number} · attempt {attempt}"
    where = f"{turn}{place}, iteration {trajectory.iteration}"
    return f"{comment.author_name} mentioned you on {where}"


def mention_letter(mention: Notification) -> Letter:
    """Write the e-mail to a user whom a comment mentions, with the comment's present text."""
    comment = mention.comment
    assert comment is not None
    author, run = comment.author_name, comment.trajectory.run
    where = f"an attempt of “{run.title}”" if comment.turn is None else f"turn {comment.turn + 1} in “{run.title}”"
    text = (
        f"{author} mentioned you in a comment on {where}:\n\n{comment.text}\n\n"
        f"{absolute(reverse('mention', args=[mention.slug]))}\n\n"
        f"Turn off these e-mails: {absolute(reverse('inbox'))}#settings\n"
    )
    subject = " ".join(f"Echoscope: {author} mentioned you on {run.title}".split())[:200]
    return Letter([mention.user.email], subject, text)


def _escaped(text: str) -> str:
    """Escape Slack's three special characters, so that nothing becomes a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
