"""Tables of notifications: alert rules and follows, the inbox, and the outbox."""

from webapp.notifications.models.inbox_models import Follow, Notification, NotificationPreference
from webapp.notifications.models.outbox_models import Delivery, DeliveryAttempt
from webapp.notifications.models.rule_models import AlertAddress, Rule, StalledRun

__all__ = [
    "AlertAddress",
    "Delivery",
    "DeliveryAttempt",
    "Follow",
    "Notification",
    "NotificationPreference",
    "Rule",
    "StalledRun",
]
