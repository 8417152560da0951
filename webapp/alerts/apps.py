from django.apps import AppConfig

from webapp.core.scheduler import every

DETECTION_INTERVAL = 4.0
DELIVERY_INTERVAL = 2.0


class AlertsConfig(AppConfig):
    name = "webapp.alerts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.alerts import delivery

        every(DETECTION_INTERVAL, "alert detection", delivery.Detector().detect)
        every(DELIVERY_INTERVAL, "alert delivery", delivery.deliver_due)
