from django.apps import AppConfig

from webapp.core.scheduler import every

LOOK_EVERY = 4.0
DELIVER_EVERY = 2.0


class AlertsConfig(AppConfig):
    name = "webapp.alerts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.alerts import delivery

        every(LOOK_EVERY, "lookout", delivery.Detector().look)
        every(DELIVER_EVERY, "courier", delivery.deliver_due)
