from django.apps import AppConfig

from webapp.core.scheduler import every

DETECTION_INTERVAL = 3.0
DELIVERY_INTERVAL = 2.0


class NotificationsConfig(AppConfig):
    name = "webapp.notifications"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.notifications import delivery, run_events

        every(DETECTION_INTERVAL, "notifications", run_events.NotificationDetector().detect)
        every(DETECTION_INTERVAL, "alert detection", delivery.Detector().detect)
        every(DELIVERY_INTERVAL, "alert delivery", delivery.deliver_due)
