from django.apps import AppConfig

from webapp.core.scheduler import every

DETECTION_INTERVAL = 3.0
DELIVERY_INTERVAL = 2.0


class NotificationsConfig(AppConfig):
    name = "webapp.notifications"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.notifications import outbox, rule_actions, run_events

        every(DETECTION_INTERVAL, "notifications", run_events.NotificationDetector().detect)
        every(DETECTION_INTERVAL, "alert detection", rule_actions.AlertDetector().detect)
        every(DELIVERY_INTERVAL, "deliveries", outbox.deliver_due)
