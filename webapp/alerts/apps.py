from django.apps import AppConfig

from webapp.background import every

LOOK_EVERY = 4.0
DELIVER_EVERY = 2.0


class AlertsConfig(AppConfig):
    name = "webapp.alerts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.alerts import courier

        every(LOOK_EVERY, "lookout", courier.Lookout().look)
        every(DELIVER_EVERY, "courier", courier.deliver_due)
