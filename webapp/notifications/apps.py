from django.apps import AppConfig
from django.db.models.functions import Now
from django.utils import timezone

from webapp.core.scheduler import every

DISPATCH_INTERVAL = 3.0
DELIVERY_INTERVAL = 2.0
CLEANING_INTERVAL = 600.0


class NotificationsConfig(AppConfig):
    name = "webapp.notifications"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.notifications import dispatch, outbox
        from webapp.notifications.models import Delivery, Rule, RunEvent

        every(
            DISPATCH_INTERVAL,
            "events",
            dispatch.dispatch,
            lambda: [RunEvent.objects.filter(dispatched_at=None), Rule.objects.filter(enabled=True)],
        )
        every(DELIVERY_INTERVAL, "deliveries", outbox.deliver_due, lambda: [Delivery.objects.due(Now())])
        every(CLEANING_INTERVAL, "old notifications", lambda: dispatch.do_forget(timezone.now()))
