"""Annotations and alert rules of a team.

site.annotations.tag(trajectory, "reward hack")
site.alerts.create("Failures", ["failed", "trapped"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from echoscope import models
from echoscope.transport import Transport


class TrajectoryAnnotations:
    """Stars, tags and comments on trajectories. All methods raise the exceptions of echoscope.errors."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, trajectory: str) -> models.Annotations:
        """Return the team's stars, tags and comments on a trajectory."""
        return self._send("GET", f"/trajectories/{trajectory}/annotations")

    def star(self, trajectory: str) -> models.Annotations:
        """Set your star."""
        return self._send("PUT", f"/trajectories/{trajectory}/star")

    def unstar(self, trajectory: str) -> models.Annotations:
        """Remove your star."""
        return self._send("DELETE", f"/trajectories/{trajectory}/star")

    def tag(self, trajectory: str, tag: str) -> models.Annotations:
        """Add a tag; case does not matter."""
        return self._send("PUT", f"/trajectories/{trajectory}/tags/{quote(tag, safe='')}")

    def untag(self, trajectory: str, tag: str) -> models.Annotations:
        """Remove a tag."""
        return self._send("DELETE", f"/trajectories/{trajectory}/tags/{quote(tag, safe='')}")

    def comment(self, trajectory: str, text: str, *, turn: int | None = None) -> models.Comment:
        """Comment on a trajectory, or on one of its turns (0-based)."""
        body = {"text": text, "turn": turn}
        answer = self._transport.send("POST", f"/trajectories/{trajectory}/comments", body=body)
        return models.Comment.model_validate(answer.json())

    def edit(self, comment: str, text: str) -> models.Comment:
        """Replace the text of a comment."""
        answer = self._transport.send("PATCH", f"/comments/{comment}", body={"text": text}, repeatable=True)
        return models.Comment.model_validate(answer.json())

    def delete(self, comment: str) -> None:
        """Delete a comment."""
        self._transport.send("DELETE", f"/comments/{comment}")

    def _send(self, method: str, path: str) -> models.Annotations:
        return models.Annotations.model_validate(self._transport.send(method, path, repeatable=True).json())


class AlertRules:
    """Alert rules of a team. All methods raise the exceptions of echoscope.errors."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Sequence[models.AlertRule]:
        """Return the rules, by name."""
        return [models.AlertRule.model_validate(rule) for rule in self._transport.send("GET", "/alerts").json()]

    def get(self, rule: str) -> models.AlertRuleDetail:
        """Return a rule with the state of its addresses."""
        return self._rule("GET", f"/alerts/{rule}", None)

    def create(self, name: str, events: Sequence[str], **settings: Any) -> models.AlertRuleDetail:
        """Create a rule; for its other settings see /api/docs. Only this answer has the secret of a webhook."""
        return self._rule("POST", "/alerts", {"name": name, "events": [*events], **settings})

    def update(self, rule: str, **changes: Any) -> models.AlertRuleDetail:
        """Change settings, or switch the rule on or off: `enabled=False`."""
        return self._rule("PATCH", f"/alerts/{rule}", changes)

    def delete(self, rule: str) -> None:
        """Delete a rule with its log."""
        self._transport.send("DELETE", f"/alerts/{rule}")

    def test(self, rule: str) -> models.Delivery:
        """Send a test alert."""
        return models.Delivery.model_validate(self._transport.send("POST", f"/alerts/{rule}/test", body={}).json())

    def rotate_secret(self, rule: str) -> models.AlertRuleDetail:
        """Replace the secret of a webhook; only this answer contains the new one.

        The old one also signs for 24 hours.
        """
        return self._rule("POST", f"/alerts/{rule}/secret", {})

    def end_former_secrets(self, rule: str) -> models.AlertRuleDetail:
        """Invalidate replaced secrets now."""
        return self._rule("DELETE", f"/alerts/{rule}/former-secrets", None)

    def deliveries(self, rule: str) -> Sequence[models.Delivery]:
        """Return the latest deliveries, newest first."""
        answer = self._transport.send("GET", f"/alerts/{rule}/deliveries").json()
        return [models.Delivery.model_validate(delivery) for delivery in answer]

    def _rule(self, method: str, path: str, body: dict[str, Any] | None) -> models.AlertRuleDetail:
        answer = self._transport.send(method, path, body=body)
        return models.AlertRuleDetail.model_validate(answer.json())
