"""Tables of notifications: events, alert rules and follows, the inbox, and the outbox."""

from webapp.notifications.models.event_models import RunEvent
from webapp.notifications.models.inbox_models import Follow, Notification, NotificationPreference
from webapp.notifications.models.outbox_models import Delivery, DeliveryAttempt
from webapp.notifications.models.rule_models import AlertAddress, Rule

__all__ = [
    "AlertAddress",
    "Delivery",
    "DeliveryAttempt",
    "Follow",
    "Notification",
    "NotificationPreference",
    "Rule",
    "RunEvent",
]
